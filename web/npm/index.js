// webpte for JavaScript: ExecuTorch programs on WebGPU. Python runs in a worker that the first call starts.

import { WebpteError } from "./errors.js";
import { Runtime } from "./runtime.js";

export * from "./errors.js";
export { Client } from "./openai.js";
export { Program } from "./program.js";
export { Runtime } from "./runtime.js";
export { GpuTensor, Tensor } from "./values.js";
export { PYODIDE as pyodideVersion, WEBPTE as version } from "./versions.js";

let settings = {};
let shared = null;

// Says where Pyodide is ({ indexURL }), before the first call.
export function configure(options) {
  if (shared && !shared.ended) {
    throw new WebpteError("webpte has started: configure it before the first call, or after close()", { code: "started" });
  }
  settings = { ...options };
}

// Returns the runtime that the functions below share. One whose start failed is started again.
function runtime() {
  if (!shared || shared.ended) shared = new Runtime(settings);
  return shared;
}

export const load = (source, options) => promised(() => runtime().load(source, options));
export const inspect = (source, options) => promised(() => runtime().inspect(source, options));
export const hubFiles = (source, options) => promised(() => runtime().hubFiles(source, options));
export const task = (...given) => promised(() => runtime().task(...given));
export const tasks = () => promised(() => runtime().tasks());
export const openai = (models, options) => promised(() => runtime().openai(models, options));

export const sees = (source, options) => promised(() => runtime().sees(source, options));

// Ends the worker, with everything in it. The next call starts another.
export function close() {
  shared?.close();
  shared = null;
}

const promised = async (open) => open();
