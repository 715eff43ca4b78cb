// Python's worker, as the page sees it.

// Returns what an error says. Requests of the browser fail with an Event, which has no message.
export const reasonOf = (error) => {
  if (!(error instanceof Event)) return String(error?.message || error);
  return (error.error ?? error.target?.error)?.message || error.message || `${error.constructor.name} “${error.type}”`;
};

const STARTING = "webpte starts"; // how many have begun since Python was up
const MOST = 3; // several tabs may start at the same time

// Starts from a snapshot that never came to their end may have failed in a way that the worker could not see: the next
// one is without.
const mayRestore = () => {
  try {
    const starts = Number(localStorage.getItem(STARTING) ?? 0);
    localStorage.setItem(STARTING, String(starts + 1));
    return starts < MOST;
  } catch {
    return true; // not allowed: then there is no snapshot, either
  }
};
export const noteUp = () => {
  try {
    localStorage.removeItem(STARTING);
  } catch { /* not allowed */ }
};

// Starts Python, and returns its worker. `told` gets the messages of the start: {step}, {fetched: [done, total]}, {failed}.
//
// counts  whether bytes are counted
// keeps   whether the browser keeps a snapshot for the next start
export const startPython = (told, { counts, keeps }) => {
  const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
  worker.addEventListener("message", ({ data }) => {
    if (!Array.isArray(data)) told(data); // all others are Python's
  });
  worker.addEventListener("error", (error) => told({ failed: reasonOf(error) }));
  const script = document.querySelector("script[config]");
  const [config, main] = ["config", "src"].map((name) => new URL(script.getAttribute(name), document.baseURI).href);
  worker.postMessage({ config, main, counts, keeps, mayRestore: mayRestore() });
  return worker;
};

// A browser without module workers never asks for the type, and would wait for Python for ever.
export const hasModuleWorkers = () => {
  let asked = false;
  const options = { get type() { asked = true; return "module"; } };
  const empty = URL.createObjectURL(new Blob([], { type: "text/javascript" })); // as the page's policy allows
  try {
    new Worker(empty, options).terminate();
  } catch {
    // Where it may not be started for another reason, the worker's own error says more.
  }
  URL.revokeObjectURL(empty);
  return asked;
};
