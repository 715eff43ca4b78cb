#!/usr/bin/env node
// npx webpte copy-runtime FOLDER: writes what `indexURL` needs, so that nothing comes from another server.
//
//   FOLDER/pyodide/      Pyodide (of the npm package), NumPy and other packages: indexURL is this folder

import { cpSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const CORE = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"];

const [command, folder] = process.argv.slice(2);
if (command !== "copy-runtime" || !folder) {
  console.error("usage: npx webpte copy-runtime FOLDER");
  process.exit(2);
}
const core = dirname(createRequire(import.meta.url).resolve("pyodide/package.json"));
const packages = join(dirname(fileURLToPath(import.meta.url)), "..", "runtime");
const out = resolve(folder, "pyodide");
mkdirSync(out, { recursive: true });
for (const name of CORE) cpSync(join(core, name), join(out, name));
cpSync(packages, out, { recursive: true });
console.log(`Pyodide is in ${out}: serve it, and call webpte.configure({ indexURL: "…/pyodide/" })`);
