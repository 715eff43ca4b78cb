// The runtime of compiled programs: `serve.py compile` writes it next to each.

export * from "./errors.js";
export { Tensor } from "./values.js";
export { open } from "./program.js";
