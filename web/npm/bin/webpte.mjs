#!/usr/bin/env node
// npx webpte copy-runtime FOLDER: writes what `indexURL` needs, so that nothing comes from another server.
//
//   FOLDER/pyodide/      Pyodide (of the npm package), NumPy and other packages: indexURL is this folder

import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const CORE = ["pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip"];
const PACKAGE = resolve(dirname(fileURLToPath(import.meta.url)), "..");

function fail(message, status) {
  console.error(message);
  process.exit(status);
}

// Returns the folder of the npm package of Pyodide: the one beside this package, or the project's. npm links a folder
// that it installs, and then leaves its dependencies to the project.
function pyodideFolder() {
  const version = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8")).dependencies.pyodide;
  let other = "";
  for (const place of [import.meta.url, join(process.cwd(), "package.json")]) {
    let found;
    try {
      found = createRequire(place).resolve("pyodide/package.json");
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND") throw error;
      continue;
    }
    const has = JSON.parse(readFileSync(found, "utf8")).version;
    if (has === version) return dirname(found);
    other = ` (${dirname(found)} has ${has})`;
  }
  return fail(`error: the npm package pyodide ${version} is not installed${other}: run \`npm install --install-links ${PACKAGE}\``, 1);
}

const [command, folder] = process.argv.slice(2);
if (command !== "copy-runtime" || !folder) fail("usage: npx webpte copy-runtime FOLDER", 2);
const core = pyodideFolder();
const out = resolve(folder, "pyodide");
mkdirSync(out, { recursive: true });
for (const name of CORE) cpSync(join(core, name), join(out, name));
cpSync(join(PACKAGE, "runtime"), out, { recursive: true });
console.log(`Pyodide is in ${out}: serve it, and call webpte.configure({ indexURL: "…/pyodide/" })`);
