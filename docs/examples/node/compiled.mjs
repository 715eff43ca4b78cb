// A compiled program in Node: Dawn (the npm package `webgpu`) for WebGPU, and no Python.
//
//   npm install webgpu@0.6.2
//   node compiled.mjs FOLDER
//
// FOLDER is what `serve.py compile digits FOLDER` wrote.

import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { create, globals } from "webgpu";

// What a browser has by itself.
Object.assign(globalThis, globals);
Object.defineProperty(globalThis, "navigator", { value: { gpu: create([]) }, configurable: true });

const picture = { width: 28, height: 28, data: new Uint8Array(28 * 28 * 3) };
for (let y = 4; y < 24; y += 1) picture.data.fill(255, 3 * (y * 28 + 13), 3 * (y * 28 + 16)); // a stroke

const { open } = await import(pathToFileURL(`${resolve(process.argv[2])}/index.js`).href);
const program = await open();
const [{ scores }] = await program.answer(picture);
console.log(`This is a ${scores[0].label}.`);
process.exit(0); // Dawn would keep Node waiting
