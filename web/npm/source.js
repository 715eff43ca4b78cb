// Files and options, as they are given to webpte.

import { InputError } from "./errors.js";

// Returns an address relative to the page; a worker's own would be another one.
export const absolute = (address) => new URL(address, globalThis.document?.baseURI ?? globalThis.location.href).href;

// Returns an absolute address, or a Blob: Python reads that in parts, so that weights do not fill its memory.
export function sourceOf(source) {
  if (typeof source === "string" || source instanceof URL) return absolute(source);
  if (source instanceof Blob) return source;
  if (source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return new Blob([source]);
  throw new InputError("a file is a URL, a Blob, an ArrayBuffer or a typed array of bytes", { code: "input" });
}

// Returns [options of Python, options of the call].
export function loadingOf({ signal, onProgress, data, tokenizer, ...options } = {}) {
  if (data) options.data = data.map(sourceOf);
  if (tokenizer) options.tokenizer = sourceOf(tokenizer);
  return [options, { signal, onProgress }];
}
