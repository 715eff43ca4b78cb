// Python's worker: starts Pyodide and runs main.py in it. The first message says where the files are; all others are for
// Python. Python's memory after its imports is kept by the browser, and a later visit starts with that (snapshot.js).

import { compileLibraries, fromSnapshot, takeSnapshot, watched } from "./snapshot.js";
import { dropSnapshot, keepSnapshot, keptSnapshot } from "./kept_snapshot.js";

const COMPILED = "webpte-bytecode"; // the cache of boot/compiled.py
const IDLE_MS = 4000; // after the start, before the snapshot is written
const LEAST_MEMORY = 4; // GB of the machine: with less, no copy of Python's memory is made

const waiting = [];
const receive = ({ data }) => waiting.push(data);
globalThis.onmessage = ({ data }) => {
  globalThis.onmessage = receive;
  begin(data);
};
const tell = (message) => postMessage(message);

// Counts the bytes that `fetch` gets, as they come over the line; a compressed file counts once it is there.
const countBytes = () => {
  const real = globalThis.fetch;
  let [done, total] = [0, 0];
  const add = (bytes) => {
    done += bytes;
    tell({ fetched: [done, total] });
  };
  globalThis.fetch = async (...request) => {
    const reply = await real(...request);
    const size = Number(reply.headers.get("Content-Length") ?? 0);
    if (!reply.ok || !size) return reply;
    total += size;
    if (reply.headers.get("Content-Encoding") || !reply.body) {
      add(size);
      return reply;
    }
    const counted = reply.body.pipeThrough(new TransformStream({
      transform: (chunk, to) => {
        add(chunk.byteLength);
        to.enqueue(chunk);
      },
    }));
    return new Response(counted, reply);
  };
  return () => { globalThis.fetch = real; };
};

const bytesOf = async (address) => {
  const reply = await fetch(address);
  if (!reply.ok) throw new Error(`${address}: ${reply.status} ${reply.statusText}`);
  return new Uint8Array(await reply.arrayBuffer());
};

// Returns the modules that Python compiled at the last visit. Python would still hold objects of the cache in a snapshot.
const compiledBefore = async () => {
  try {
    const found = await (await caches.open(COMPILED)).match(`/${COMPILED}`);
    return new Uint8Array(found ? await found.arrayBuffer() : 0);
  } catch {
    return new Uint8Array(); // the browser keeps nothing
  }
};

const begin = async ({ config: address, main, counts, keeps, mayRestore }) => {
  try {
    const config = await (await fetch(address)).json();
    const place = (path) => new URL(path, address).href;
    globalThis.webpteLater = Object.fromEntries(Object.entries(config.later).map(([name, path]) => [name, place(path)]));
    const program = fetch(main).then((reply) => reply.text());
    const kept = mayRestore ? await keptSnapshot(config.version) : null;
    if (kept) {
      try {
        await run(await restored(config, place, kept), await program);
        return;
      } catch (error) {
        console.info(`Python starts anew: ${error.message}`);
        globalThis.onmessage = receive;
      }
    }
    if (!mayRestore || kept) await dropSnapshot();
    const done = counts ? countBytes() : () => {};
    const { python, snapshot } = await started(config, place, keeps && (navigator.deviceMemory ?? LEAST_MEMORY) >= LEAST_MEMORY);
    done();
    await run(python, await program);
    if (snapshot) setTimeout(() => keepSnapshot(config.version, snapshot).catch(() => {}), IDLE_MS); // the disk is full, or not allowed
  } catch (error) {
    tell({ failed: error?.constructor?.name === "PythonError" ? "Python raised an error: see the browser's console." : String(error?.message || error) });
    console.error(error?.message ?? error);
  }
};

// Returns what starts Pyodide, with options of every start.
const load = async (config, place) => {
  const indexURL = new URL(".", place(config.interpreter)).href;
  const [{ loadPyodide }, { default: create }] = await Promise.all([import(place(config.interpreter)), import(`${indexURL}pyodide.asm.mjs`)]);
  const every = { indexURL, stdLibURL: place(config.library), stdout: (text) => console.log(text), stderr: (text) => console.error(text) };
  return { create, start: (options) => loadPyodide({ ...every, ...options }) };
};

const restored = async (config, place, snapshot) => {
  const compiled = compileLibraries(snapshot);
  const { start, create } = await load(config, place);
  tell({ step: "python" });
  const python = await start(fromSnapshot(create, snapshot, compiled));
  for (const name of config.packages) python.loadedPackages[name] = "default channel";
  tell({ step: "webpte" });
  python.runPython("from boot import imports; imports.wake()");
  return python;
};

const started = async (config, place, keeps) => {
  tell({ step: "python" });
  const files = bytesOf(place(config.archive));
  const compiled = config.bytecode && bytesOf(place(config.bytecode));
  const before = compiledBefore();
  const noted = {};
  const { start, create } = await load(config, place);
  const python = await start({ packages: config.packages, createPyodideModule: watched(create, noted) });
  tell({ step: "webpte" });
  python.unpackArchive(await files, "zip");
  if (compiled) python.FS.writeFile("webpte.bytecode", await compiled);
  python.FS.writeFile("webpte.kept", await before);
  python.runPython("from boot import imports; imports.import_all()");
  let snapshot = null;
  try {
    if (keeps) {
      python.runPython("imports.settle()");
      snapshot = takeSnapshot(python, noted);
    }
  } catch (error) {
    console.info(error.message);
  }
  return { python, snapshot };
};

const run = async (python, program) => {
  await python.runPythonAsync(program, { filename: "main.py" });
  for (const data of waiting.splice(0)) globalThis.onmessage({ data });
};
