// Plain Pyodide with NumPy, flatbuffers and webpte, and one function to run Python in it.
//
// This file is both sides: the page starts it once more as a worker, and the interpreter is
// there, as in the real page. So a program that hangs does not take the page with it.

// A function body is compiled into an async function with the arguments' names as parameters.
// The parameters' values and the result travel as JSON.
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

async def _run(code, arguments):
    try:
        values = json.loads(arguments)
        result = await _compile(code, values)(**values)
        return json.dumps({"value": result}, default=_plain)
    except BaseException as error:
        summary = "".join(traceback.format_exception_only(error)).strip()
        return json.dumps({"error": traceback.format_exc(), "summary": summary})

_run
`;

async function startPython() {
  const { loadPyodide } = await import("./runtime/pyodide/pyodide.mjs");
  const [pyodide, archive] = await Promise.all([
    loadPyodide({ packages: ["numpy", "flatbuffers"] }),
    fetch("./webpte.zip").then((reply) => {
      if (!reply.ok) throw new Error(`webpte.zip: ${reply.status} ${reply.statusText}`);
      return reply.arrayBuffer();
    }),
  ]);
  const folder = pyodide.runPython("import site; site.getsitepackages()[0]");
  pyodide.unpackArchive(archive, "zip", { extractDir: folder });
  return pyodide.runPython(RUNNER, { globals: pyodide.toPy({}) });
}

function workerSide() {
  const started = startPython();
  started.then(
    () => postMessage({ ready: true }),
    (error) => postMessage({ failed: String(error.stack ?? error) }),
  );
  globalThis.onmessage = async ({ data: { id, code, args } }) => {
    const run = await started;
    postMessage({ id, reply: await run(code, args) });
  };
}

function pageSide() {
  const waiting = new Map();
  let lastId = 0;
  const worker = new Worker(new URL(import.meta.url), { type: "module" });

  globalThis.webpteReady = new Promise((resolve, reject) => {
    worker.onerror = (event) => reject(new Error(`the worker failed: ${event.message}`));
    worker.onmessage = ({ data }) => {
      if (data.ready) resolve(true);
      else if (data.failed) reject(new Error(data.failed));
      else {
        waiting.get(data.id)(JSON.parse(data.reply));
        waiting.delete(data.id);
      }
    };
  });

  // {value} or {error, summary}; {timeout: true} when there was no answer in that time, after
  // which the interpreter is gone and the page has to be loaded again.
  globalThis.runPython = (code, args = {}, seconds = 120) =>
    new Promise((resolve) => {
      const id = ++lastId;
      const timer = setTimeout(() => {
        worker.terminate();
        resolve({ timeout: true });
      }, seconds * 1000);
      waiting.set(id, (reply) => {
        clearTimeout(timer);
        resolve(reply);
      });
      worker.postMessage({ id, code, args: JSON.stringify(args) });
    });
}

if (typeof document === "undefined") workerSide();
else pageSide();
