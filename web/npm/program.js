// Programs: what `load` returns.

import { loadingOf, sourceOf } from "./source.js";

export class Program {
  #connection;
  #handle;

  constructor(connection, { handle, name, methods, metadata, device }) {
    this.#connection = connection;
    this.#handle = handle;
    this.name = name;
    this.methods = methods; // by name: inputs, outputs, operators
    this.metadata = metadata; // the values of methods that return what the file holds
    this.device = device;
  }

  // Runs the method `forward`. Resolves to an array, one item per output.
  forward(...inputs) {
    return this.run("forward", inputs);
  }

  // Runs a method. A call that is cancelled has had all of its effect, or none.
  run(method, inputs = [], { output = "array", signal, onProgress } = {}) {
    return this.#connection.call("run", [this.#handle, method, inputs, output], { signal, onProgress });
  }

  // Returns counters: GPU memory, dispatches, times of the last call.
  stats() {
    return this.#connection.call("stats", [this.#handle]);
  }

  // Builds the program anew after a DeviceLostError.
  recover({ signal, onProgress } = {}) {
    return this.#connection.call("recover", [this.#handle], { signal, onProgress });
  }

  // Frees its memory. A second call does nothing.
  async close() {
    await this.#connection.release(this.#handle);
  }
}

export async function openProgram(connection, source, options) {
  const [loading, call] = loadingOf(options);
  const discard = ({ handle }) => connection.release(handle);
  const made = await connection.call("load", [sourceOf(source), loading], { ...call, discard });
  return new Program(connection, made);
}
