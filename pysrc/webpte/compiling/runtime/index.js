// The runtime of compiled programs: `serve.py compile` writes it next to each. The last line is for its other modules.

export * from "./errors.js";
export { Tensor } from "./values.js";
export { fetched, open } from "./program.js";
export { BYTES, count, unpack } from "./values.js";
export { evaluate } from "./expressions.js";
