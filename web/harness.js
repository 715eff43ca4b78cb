// Pyodide with NumPy, flatbuffers, webpte and the tools of its developers, and a function to run Python in it.
//
// The page starts this file again as a worker, in which the interpreter runs, as in the real page. So a program
// that hangs does not block the page.

import { startPython } from "./npm/start_python.js";

// A function body is compiled into an async function with the arguments' names as parameters.
// The parameters' values and the result travel as JSON. One more parameter is a function,
// report_progress(stage, done, total), whose calls are visible to the waiting side.
const RUNNER = `
import ast, json, linecache, traceback

_shared = {"__name__": "__harness__"}

def _plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be returned to the host: it is not JSON")

def _compile(code, names):
    filename = "<harness>"
    linecache.cache[filename] = (len(code), None, code.splitlines(True), filename)
    module = ast.parse(f"async def _body({', '.join(names)}): pass")
    module.body[0].body = ast.parse(code, filename).body or module.body[0].body
    exec(compile(module, filename, "exec"), _shared)
    return _shared.pop("_body")

async def _run(code, arguments, report_progress):
    try:
        values = json.loads(arguments) | {"report_progress": report_progress}
        result = await _compile(code, values)(**values)
        return json.dumps({"value": result}, default=_plain)
    except BaseException as error:
        summary = "".join(traceback.format_exception_only(error)).strip()
        return json.dumps({"error": traceback.format_exc(), "summary": summary})

_run
`;

async function startRunner() {
  const here = (path) => new URL(path, import.meta.url).href;
  const pyodide = await startPython({
    indexURL: here("./runtime/pyodide/"),
    packages: ["numpy", "flatbuffers"],
    archives: [here("./webpte.zip"), here("./suites.zip")],
  });
  return pyodide.runPython(RUNNER, { globals: pyodide.toPy({}) });
}

function workerSide() {
  const started = startRunner();
  started.then(
    () => postMessage({ id: START, reply: "{}" }),
    (error) => postMessage({ id: START, failed: String(error.stack ?? error) }),
  );
  globalThis.onmessage = async ({ data: { id, code, args } }) => {
    const run = await started;
    const report = (stage, done, total) => postMessage({ id, progress: { stage, done, total } });
    postMessage({ id, reply: await run(code, args, report) });
  };
}

// Calls have numbers; number 0 is the start of the interpreter.
const START = 0;

function pageSide() {
  const calls = new Map();
  const worker = new Worker(new URL(import.meta.url), { type: "module" });

  function newCall(id) {
    const call = { moves: 0, progress: null };
    call.settled = new Promise((resolve) => { call.settle = resolve; });
    calls.set(id, call);
  }

  newCall(START);
  worker.onmessage = ({ data: { id, reply, failed, progress } }) => {
    const call = calls.get(id);
    if (progress) {
      call.moves += 1;
      call.progress = progress;
    } else call.settle(failed ? { failed } : { reply: JSON.parse(reply) });
  };
  worker.onerror = (event) => {
    for (const call of calls.values()) call.settle({ failed: `the worker failed: ${event.message}` });
  };

  globalThis.startPython = (code, args = {}) => {
    const id = Math.max(...calls.keys()) + 1;
    newCall(id);
    worker.postMessage({ id, code, args: JSON.stringify(args) });
    return id;
  };

  // Within `ms`: {reply: {value}}, {reply: {error, summary}} or {failed}, after which the call is
  // forgotten; or else what is known of it, {moves, progress}, `moves` being a count of reports.
  globalThis.watchPython = async (id, ms) => {
    const call = calls.get(id);
    const later = new Promise((resolve) => setTimeout(resolve, ms, null));
    const settled = await Promise.race([call.settled, later]);
    if (settled && id !== START) calls.delete(id);
    return settled ?? { moves: call.moves, progress: call.progress };
  };

  // Says whether a device of the page still answers, while the interpreter's does not.
  globalThis.gpuAnswers = (ms) => {
    const asked = async () => {
      const device = await (await navigator.gpu.requestAdapter()).requestDevice();
      device.queue.submit([]);
      await device.queue.onSubmittedWorkDone();
      device.destroy();
      return "answers";
    };
    const late = new Promise((resolve) => setTimeout(resolve, ms, "does not answer"));
    return Promise.race([asked().catch((error) => `fails: ${error.message}`), late]);
  };

  // Ends the interpreter; the page has to be reloaded afterwards.
  globalThis.stopPython = () => worker.terminate();
}

if (typeof document === "undefined") workerSide();
else pageSide();
