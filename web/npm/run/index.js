// Opens compiled programs by the address of their folder. The other modules of this folder are made with the package.

import { InputError, fetched, open as openAt } from "./webpte-run.js";

export * from "./webpte-run.js";

// Opens the program in a folder: an address, in pages and workers relative to theirs.
export async function open(folder, options = {}) {
  let base;
  try {
    base = new URL(folder, globalThis.document?.baseURI ?? globalThis.location?.href);
  } catch (error) {
    throw new InputError(`${folder} is not the address of a folder: ${error.message}`, { cause: error });
  }
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  const descriptions = options.descriptions ?? (await fetched(new URL("devices.json", base), "json", options.signal));
  return openAt(base, { ...options, descriptions });
}
