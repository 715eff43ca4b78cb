// webpte in Node: Pyodide for Python, Dawn (the npm package `webgpu`) for WebGPU.
//
//   npm install webgpu@0.6.2
//   node digits.mjs PYODIDE_FOLDER WHEEL digits.pte
//
// PYODIDE_FOLDER is `runtime/pyodide` of a site that `serve.py build` made, WHEEL is beside it.

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { create, globals } from "webgpu";

const [pyodideFolder, wheel, program] = process.argv.slice(2).map((path) => resolve(path));

// What a browser has by itself.
Object.assign(globalThis, globals);
const browser = { gpu: create([]), userAgent: "Node" };
Object.defineProperty(globalThis, "navigator", { value: browser, configurable: true });

const bytes = (path) => new Uint8Array(readFileSync(path));
const { loadPyodide } = await import(pathToFileURL(`${pyodideFolder}/pyodide.mjs`).href);
const python = await loadPyodide({ indexURL: pyodideFolder, packages: ["numpy", "flatbuffers"] });
python.unpackArchive(bytes(wheel), "wheel");
python.globals.set("program_bytes", bytes(program));
console.log(await python.runPythonAsync(`
import numpy as np
import webpte

picture = np.zeros((1, 1, 28, 28), np.float32)
picture[0, 0, 4:24, 13:16] = 1  # a stroke
async with await webpte.load(program_bytes.to_bytes()) as program:
    (likely,) = await program.forward(picture)
    answer = f"On {program.device_info.kind}, this is a {likely.argmax()}."
answer
`));
process.exit(0); // Dawn would keep Node waiting
