// Runs a script of tests/bench in Pyodide: page.html?script=task_page.py&what=search, for example.
//
// The script runs in a worker, as in the real page. It has `js.query`, the parameters of the address, and
// `js.say(text)`. Its value, a text or a promise of one, is posted to /result of the page's own server; what it
// says to /log; an error to /result, too, as {"error"}. The site has `bench.page_site`'s files.

import { startPython } from "./npm/start_python.js";

const post = (path, body) => fetch(path, { method: "POST", body }).catch(() => {}); // not every server takes it

async function run(query) {
  const here = (path) => new URL(path, import.meta.url).href;
  const say = (text) => {
    postMessage({ said: text });
    post("/log", text);
  };
  Object.assign(globalThis, { query, say });
  const script = await fetch(here(query.script));
  if (!script.ok) throw new Error(`${query.script}: ${script.status} ${script.statusText}`);
  const pyodide = await startPython({
    indexURL: here("./runtime/pyodide/"),
    packages: ["numpy", "flatbuffers"],
    archives: [here("./webpte.zip")],
  });
  say("Python is there");
  return pyodide.runPythonAsync(await script.text());
}

function workerSide() {
  globalThis.onmessage = async ({ data }) => {
    let result;
    try {
      result = await run(data);
    } catch (error) {
      result = JSON.stringify({ error: String(error.stack ?? error) });
    }
    postMessage({ result });
    await post("/result", result);
  };
}

function pageSide() {
  const worker = new Worker(new URL(import.meta.url), { type: "module" });
  const show = (text) => { document.getElementById("output").textContent += `${text}\n`; };
  worker.onmessage = ({ data: { said, result } }) => show(said ?? result);
  worker.onerror = (event) => post("/result", JSON.stringify({ error: `the worker failed: ${event.message}` }));
  worker.postMessage(Object.fromEntries(new URLSearchParams(location.search)));
}

if (typeof document === "undefined") workerSide();
else pageSide();
