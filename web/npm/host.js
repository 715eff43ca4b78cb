// The side of a connection that has Python: starts it, and passes messages to it and back.

import { find } from "./scripts.js";
import { startPython } from "./start_python.js";

// Returns a function that takes the messages of a Connection. `post(message, transfer)` takes the answers.
// sharesThread  the Connection is in this thread
export function startHost({ indexURL, hubURL, sharesThread = false }, post) {
  const started = start(indexURL, hubURL, sharesThread, post);
  started.catch((error) => post({ failed: String(error?.message ?? error) }));
  const cancelled = new Set(); // before Python was there
  let ready = false;
  started.then(() => { ready = true; }, () => {});

  return async ({ id, name, text, parts, cancel }) => {
    if (cancel && !ready) {
      cancelled.add(id);
      return;
    }
    const { pyodide, worker } = await started.catch(() => ({}));
    if (!worker) return; // the connection knows why
    if (cancel) worker.cancel(id);
    else if (cancelled.delete(id)) post({ id, kind: "cancelled", text: "null", parts: [] });
    else begin(pyodide, worker, { id, name, text, parts }, post);
  };
}

function begin(pyodide, worker, { id, name, text, parts }, post) {
  try {
    const given = pyodide.toPy(parts);
    worker.start(id, name, text, given);
    given.destroy();
  } catch (error) { // calls do not fail here: Python itself has
    post({ failed: String(error?.message ?? error) });
  }
}

async function start(indexURL, hubURL, sharesThread, post) {
  const pyodide = await startPython({
    indexURL,
    env: hubURL ? { HF_ENDPOINT: String(hubURL) } : {},
    packages: ["numpy"],
    archives: [new URL("./webpte.zip", import.meta.url).href, new URL("./flatbuffers.zip", import.meta.url).href],
    onStep: (done, total) => post({ started: { stage: "python", done, total } }),
  });
  pyodide.registerJsModule("webpte_scripts", { find });
  const copyOf = (part) => {
    if (!part.getBuffer) return part; // an object of JavaScript
    const view = part.getBuffer("u8");
    const bytes = view.data.slice();
    view.release();
    part.destroy();
    return bytes;
  };
  const send = (id, kind, text, parts) => {
    const copied = Array.from(parts, copyOf);
    post({ id, kind, text, parts: copied }, sharesThread ? [] : copied.map((bytes) => bytes.buffer));
  };
  const worker = pyodide.pyimport("npm.worker").Worker(send, sharesThread);
  return { pyodide, worker };
}
