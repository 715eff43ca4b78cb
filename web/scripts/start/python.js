// Loads PyScript. It opens databases in which it keeps none of our packages (`packages_cache` in page_config.py),
// and a browser that allows no storage, such as in frames of other sites, would end the start there. So these
// databases are in memory, on this thread and in PyScript's worker.

// Returns what an error says. Requests of the browser fail with an Event, which has no message.
export const reasonOf = (error) => {
  if (!(error instanceof Event)) return String(error?.message || error);
  return (error.error ?? error.target?.error)?.message || error.message || `${error.constructor.name} “${error.type}”`;
};

// Runs on both threads: its text is put before the worker's own, so it names nothing outside of it.
const prepare = (reason) => {
  const answer = (value) => {
    const asked = {};
    queueMicrotask(() => asked.onsuccess?.({ target: { result: value } }));
    return asked;
  };
  const inMemory = () => {
    const kept = new Map();
    const store = {
      clear: () => answer(kept.clear()),
      count: () => answer(kept.size),
      delete: (key) => answer(void kept.delete(key)),
      get: (key) => answer(kept.get(key)),
      getAllKeys: () => answer([...kept.keys()]),
      getKey: (key) => answer(kept.has(key) ? key : undefined),
      put: (value, key) => answer(kept.set(key, value) && key),
    };
    return answer({ close: () => {}, transaction: () => ({ objectStore: () => store }) });
  };
  const real = globalThis.indexedDB;
  const open = (name, ...more) => (String(name).startsWith("IDBMap/") ? inMemory() : real.open(name, ...more));
  const own = { get: (factory, name) => (name === "open" ? open : factory[name]?.bind?.(factory)) };
  Object.defineProperty(globalThis, "indexedDB", { configurable: true, value: new Proxy(real ?? {}, own) });
  if (globalThis.document) return;
  // The worker reports an error by a message, which cannot carry an Event.
  const post = globalThis.postMessage;
  globalThis.postMessage = (data, ...more) => post.call(globalThis, data instanceof Event ? new Error(reason(data)) : data, ...more);
};

// Calls `connect(script, worker)` once PyScript has made its worker.
export const startPython = async (connect) => {
  prepare(reasonOf);
  const makeAddress = URL.createObjectURL;
  const before = `(${prepare})(${reasonOf});\n`;
  URL.createObjectURL = (blob) =>
    makeAddress.call(URL, blob.type === "text/javascript" ? new Blob([before, blob], { type: blob.type }) : blob);
  const { hooks } = await import("../../runtime/pyscript/core.js");
  hooks.main.onWorker.add((script, worker) => {
    URL.createObjectURL = makeAddress;
    connect(script, worker);
  });
};

// A browser without module workers never asks for the type, and would wait for Python for ever.
export const hasModuleWorkers = () => {
  let asked = false;
  const options = { get type() { asked = true; return "module"; } };
  const empty = URL.createObjectURL(new Blob([], { type: "text/javascript" })); // as the page's policy allows
  try {
    new Worker(empty, options).terminate();
  } catch {
    // Where it may not be started for another reason, PyScript's own error says more.
  }
  URL.revokeObjectURL(empty);
  return asked;
};
