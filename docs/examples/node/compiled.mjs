// A compiled program in Node or Deno, without Python.
//
//   npm install webgpu@0.6.2                # Node has no WebGPU: Dawn's package brings it
//   node compiled.mjs FOLDER
//   deno run -A compiled.mjs FOLDER         # Deno has it
//
// FOLDER is what `serve.py compile digits FOLDER` wrote.

import { resolve } from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";

if (!globalThis.navigator?.gpu) { // what a browser has by itself
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) }, configurable: true });
}

const picture = { width: 28, height: 28, data: new Uint8Array(28 * 28 * 3) };
for (let y = 4; y < 24; y += 1) picture.data.fill(255, 3 * (y * 28 + 13), 3 * (y * 28 + 16)); // a stroke

const { open } = await import(pathToFileURL(`${resolve(process.argv[2])}/index.js`).href);
const program = await open();
const [{ scores }] = await program.answer(picture);
console.log(`This is a ${scores[0].label}.`);
process.exit(0); // Dawn would keep Node waiting
