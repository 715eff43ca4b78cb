const status = document.getElementById("status");
const form = document.getElementById("form");
const fail = (error) => { status.textContent = `${error.name}: ${error.message} ${error.advice ?? ""}`; };
try {
  const webpte = await import("./webpte/index.js");
  webpte.configure({ indexURL: "runtime/pyodide/" }); // an extension may not load code from elsewhere
  const task = await webpte.task("text-classification", "model/");
  form.onsubmit = async (event) => {
    event.preventDefault();
    try {
      const [{ label, score }] = await task(document.getElementById("text").value);
      status.textContent = `${label}: ${score.toFixed(2)}`;
    } catch (error) {
      fail(error);
    }
  };
  form.querySelector("button").disabled = false;
  status.textContent = "Ready.";
} catch (error) {
  fail(error);
}
