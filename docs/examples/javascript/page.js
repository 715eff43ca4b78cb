const show = (id, text) => { document.getElementById(id).textContent = text; };
const fail = (error) => show("status", `${error.name}: ${error.message} ${error.advice ?? ""}`); // no WebGPU, or a file that is not there
const onProgress = ({ stage, done, total }) => show("status", `${stage}: ${done} of ${total}`);
try {
  const webpte = await import("./webpte/index.js"); // with a bundler: import * as webpte from "webpte"
  // Without this line Pyodide comes from jsDelivr.
  webpte.configure({ indexURL: "./runtime/pyodide/" });
  const program = await webpte.load("model.pte", { onProgress });
  const [{ shape }] = program.methods.forward.inputs;
  const size = shape.reduce((a, b) => a * b, 1);
  const button = document.getElementById("run");
  button.onclick = async () => {
    try {
      const [output] = await program.forward(Float32Array.from({ length: size }, Math.random));
      show("output", output.data.join("\n"));
    } catch (error) {
      fail(error);
    }
  };
  button.disabled = false;
  show("status", `Ready: ${size} random values in.`);
} catch (error) {
  fail(error);
}
