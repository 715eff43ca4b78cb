// webpte in the thread that calls it, for workers of your own: there, programs take GPUBuffers and give them.

import { Connection } from "./connection.js";
import { WebpteError } from "./errors.js";
import { startHost } from "./host.js";
import { Runtime, folderOf } from "./runtime.js";

export class RuntimeHere extends Runtime {
  #connection;

  constructor({ indexURL, hubURL } = {}) {
    if (globalThis.document) {
      throw new WebpteError("Python would stop the page while it computes: start webpte/here in a worker of yours", { code: "main_thread" });
    }
    const port = { post: null, onmessage: null, onfailure: null };
    // Later, as a message of another thread would come.
    const post = (message) => queueMicrotask(() => port.onmessage(message));
    port.post = startHost({ indexURL: folderOf(indexURL), hubURL, sharesThread: true }, post);
    const connection = new Connection(port, { sharesThread: true });
    super({ connection });
    this.#connection = connection;
  }

  // Returns the GPUDevice of all programs: buffers that are given to them have to be made on it.
  gpuDevice() {
    return this.#connection.call("device", []);
  }
}
