import * as webpte from "./webpte/index.js";

const status = document.getElementById("status");
const form = document.getElementById("form");
webpte.configure({ indexURL: "runtime/pyodide/" }); // an extension may not load code from elsewhere
try {
  const task = await webpte.task("text-classification", "model/");
  form.onsubmit = async (event) => {
    event.preventDefault();
    const [{ label, score }] = await task(document.getElementById("text").value);
    status.textContent = `${label}: ${score.toFixed(2)}`;
  };
  form.querySelector("button").disabled = false;
  status.textContent = "Ready.";
} catch (error) {
  status.textContent = `${error.name}: ${error.message}`;
}
