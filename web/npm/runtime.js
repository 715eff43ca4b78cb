// A runtime: Python in a worker, and the functions that open models in it.

import { Connection } from "./connection.js";
import { StartError } from "./errors.js";
import { openClient } from "./openai.js";
import { openProgram } from "./program.js";
import { absolute, sourceOf } from "./source.js";
import { openTask } from "./task.js";
import { PYODIDE } from "./versions.js";

const CDN = `https://cdn.jsdelivr.net/pyodide/v${PYODIDE}/full/`;

// Returns the address of Pyodide's folder, with a final slash.
export const folderOf = (indexURL) => absolute(indexURL ?? CDN).replace(/\/?$/, "/");

function makeWorker() {
  if (!globalThis.location || !globalThis.Worker) {
    throw new StartError("Python starts in a worker of a browser, and there is no browser here: use webpte in a page, or see docs/use/javascript.md for Node", { code: "start" });
  }
  const own = new URL(import.meta.url);
  if (own.origin === globalThis.location.origin || own.protocol === "file:") {
    // Bundlers know this form, and no other.
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "webpte" });
  }
  // The script of a worker has to be of the page's own origin; a module that it imports has not.
  const name = "worker.js";
  const code = `import ${JSON.stringify(new URL(name, own).href)};`;
  const address = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
  const worker = new Worker(address, { type: "module", name: "webpte" });
  worker.addEventListener("message", () => URL.revokeObjectURL(address), { once: true });
  return worker;
}

function workerPort(worker) {
  const port = { post: (message, transfer = []) => worker.postMessage(message, transfer), onmessage: null, onfailure: null };
  worker.onmessage = ({ data }) => port.onmessage(data);
  worker.onmessageerror = () => port.onfailure("a message of the worker could not be read");
  worker.onerror = (event) => port.onfailure(`the worker failed: ${event.message ?? "its script could not be loaded"}`);
  return port;
}

export class Runtime {
  #connection;

  // hubURL      another server than huggingface.co for names such as "hf:owner/name"
  // connection  of a host that runs elsewhere, in place of a worker; see here.js
  constructor({ indexURL, hubURL, worker, connection } = {}) {
    if (connection) {
      this.#connection = connection;
      return;
    }
    const used = worker ?? makeWorker();
    this.#connection = new Connection(workerPort(used), { onEnd: () => used.terminate() });
    used.postMessage({ indexURL: folderOf(indexURL), hubURL: hubURL && absolute(hubURL) });
  }

  // Whether Python could not be started, has failed, or was ended.
  get ended() {
    return this.#connection.failed;
  }

  load(source, options) {
    return openProgram(this.#connection, source, options);
  }

  inspect(source, { signal, onProgress } = {}) {
    return this.#connection.call("inspect", [sourceOf(source)], { signal, onProgress });
  }

  // Lists the files of a repository of the Hugging Face Hub: "hf:owner/name".
  hubFiles(source, { signal } = {}) {
    return this.#connection.call("hub_files", [String(source)], { signal });
  }

  task(...given) {
    return openTask(this.#connection, ...given);
  }

  tasks() {
    return this.#connection.call("tasks", []);
  }

  openai(models, options) {
    return openClient(this.#connection, models, options);
  }

  // Resolves to whether a language model takes pictures; reads the head of its file only.
  sees(source, { keep = false, signal } = {}) {
    return this.#connection.call("sees", [sourceOf(source), keep], { signal });
  }

  // Ends Python with everything in it. Calls that are under way are rejected.
  close() {
    this.#connection.close();
  }
}
