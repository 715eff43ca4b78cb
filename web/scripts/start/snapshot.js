// A snapshot of Python's memory after its imports, which a later start puts in place of them. Pyodide's own snapshots know
// nothing of dynamic libraries, such as NumPy's: these are instantiated again where they were, in memory and in the table of
// functions, before the memory of then is put over them. What cannot be put back exactly ends in an error, and the caller
// starts Python without a snapshot.
//
// A snapshot is { head, memory, files }: `head` is JSON; `memory` has the pages that are not empty, `files` the contents
// of Python's files, one after the other.

const PAGE = 4096;
const SKIPPED = new Set(["/dev", "/proc", "/tmp"]); // folders whose files are not kept

const refuse = (why) => { throw new Error(`no snapshot: ${why}`); };

// Returns the numbers of pages that have contents, as [first, count, first, count, ...].
const usedPages = (memory) => {
  const words = new Uint32Array(memory.buffer, memory.byteOffset, memory.length / 4);
  const runs = [];
  const step = PAGE / 4;
  for (let page = 0; page * PAGE < memory.length; page++) {
    let at = page * step;
    const end = at + step;
    while (at < end && words[at] === 0) at++;
    if (at === end) continue;
    if (runs.at(-2) + runs.at(-1) === page) runs[runs.length - 1]++;
    else runs.push(page, 1);
  }
  return runs;
};

// Objects of JavaScript that Python holds must be global ones: they have the same name at the next visit.
const nameOf = (object) => {
  if (object === globalThis) return "globalThis";
  const name = Object.getOwnPropertyNames(globalThis).find((key) => {
    try {
      return globalThis[key] === object;
    } catch {
      return false;
    }
  });
  return name ?? refuse(`Python holds ${String(object).slice(0, 80)}`);
};
const objectOf = (name) => globalThis[name];
// Pyodide expects its own first objects as they are at a start; by now packages are in one of them, which lists packages.
const stateOf = (module, api) => {
  const { getExpectedKeys } = api;
  api.getExpectedKeys = () => getExpectedKeys().map((expected, at) => (
    expected && !Object.keys(expected).length ? module.__hiwire_get(at) : expected
  ));
  try {
    return api.serializeHiwireState(nameOf);
  } finally {
    api.getExpectedKeys = getExpectedKeys;
  }
};

const filesOf = (FS, folder, list) => {
  for (const name of FS.readdir(folder)) {
    if (name === "." || name === "..") continue;
    const path = `${folder === "/" ? "" : folder}/${name}`;
    if (SKIPPED.has(path)) continue;
    const { node } = FS.lookupPath(path);
    const { mode, mtime } = FS.lstat(path);
    if (FS.isLink(mode)) list.push({ path, link: FS.readlink(path) });
    else if (FS.isDir(mode)) {
      list.push({ path });
      filesOf(FS, path, list);
    } else if (FS.isFile(mode)) list.push({ path, size: node.usedBytes, mtime: mtime.getTime(), node });
  }
  return list;
};

// Returns names of functions by their place in the table: those that came after the start.
const addedFunctions = ({ LDSO, GOT, wasmTable, freeTableIndexes }, first, blocks) => {
  const names = new Map();
  for (const { name, exports } of Object.values(LDSO.loadedLibsByName)) {
    for (const [key, value] of Object.entries(exports)) {
      if (typeof value === "function" && !names.has(value)) names.set(value, [name, key]);
    }
  }
  const byPlace = new Map(Object.entries(GOT).map(([key, { value }]) => [value, key]));
  const free = new Set(freeTableIndexes);
  const added = [];
  for (let at = first; at < wasmTable.length; at++) {
    if (blocks.some(({ table, tableSize }) => at >= table && at < table + tableSize)) continue;
    const it = wasmTable.get(at);
    if (it === null || free.has(at)) continue;
    if (names.has(it)) added.push([at, ...names.get(it)]);
    else if (byPlace.has(at)) added.push([at, "__main__", byPlace.get(at)]); // a function of JavaScript
    else refuse(`a function at ${at} has no name`);
  }
  return added;
};

// Returns a function for `createPyodideModule` of loadPyodide: it notes the size of the table, and the files, before
// Python runs.
export const watched = (create, noted) => (settings) => {
  settings.preRun.push((module) => {
    module.onRuntimeInitialized = () => {
      noted.table = module.wasmTable.length;
      noted.files = new Set(filesOf(module.FS, "/", []).map(({ path }) => path));
    };
  });
  return create(settings);
};

// Takes a snapshot; no code of Python runs, and none waits.
export const takeSnapshot = ({ _module: module, _api: api, FS }, noted) => {
  const { HEAPU32, LDSO, GOT, wasmTable, freeTableIndexes } = module;
  const libraries = Object.entries(LDSO.loadedLibsByHandle).filter(([handle]) => handle !== "0").map(([handle, { name, global, refcount }]) => {
    const at = Number(handle) >>> 2;
    const [memory, memorySize, table, tableSize] = HEAPU32.subarray(at + 3, at + 7);
    return { name, handle: Number(handle), global, refcount: refcount === Infinity ? null : refcount, memory, memorySize, table, tableSize };
  }).sort((one, other) => one.table - other.table);
  const names = new Set(libraries.map(({ name }) => name));
  const unknown = Object.keys(LDSO.loadedLibsByName).find((name) => name !== "__main__" && !names.has(name));
  if (unknown) refuse(`${unknown} has no handle`);
  const functions = addedFunctions(module, noted.table, libraries);
  const state = stateOf(module, api);
  const files = filesOf(FS, "/", []).filter(({ path }) => !noted.files.has(path));
  const bytes = new Uint8Array(files.reduce((sum, { size = 0 }) => sum + size, 0));
  let at = 0;
  for (const file of files) {
    if (file.node) bytes.set(file.node.contents.subarray(0, file.size), at);
    at += file.size ?? 0;
    delete file.node;
  }
  const { HEAPU8 } = module;
  const pages = usedPages(HEAPU8);
  const memory = new Uint8Array(pages.reduce((sum, count, index) => sum + (index % 2 ? count * PAGE : 0), 0));
  for (let index = 0, to = 0; index < pages.length; index += 2) {
    const [first, count] = [pages[index] * PAGE, pages[index + 1] * PAGE];
    memory.set(HEAPU8.subarray(first, first + count), to);
    to += count;
  }
  const got = Object.fromEntries(Object.entries(GOT).map(([name, { value }]) => [name, value]));
  const head = {
    build: api.config.BUILD_ID, state, libraries, functions, got, files, pages,
    size: HEAPU8.length, table: [noted.table, wasmTable.length], free: [...freeTableIndexes],
  };
  return { head, memory, files: bytes };
};

// ---- the way back

const putFiles = ({ FS }, { head, files }) => {
  let at = 0;
  for (const { path, link, size, mtime } of head.files) {
    const cut = path.lastIndexOf("/");
    if (link !== undefined) FS.symlink(link, path);
    else if (size === undefined) FS.mkdir(path);
    else {
      const node = FS.createDataFile(path.slice(0, cut) || "/", path.slice(cut + 1), files.subarray(at, at + size), true, true, true);
      if (node) node.mtime = node.timestamp = mtime;
      at += size;
    }
  }
};

const putLibrary = (module, library, compiled) => {
  const { GOTHandler, LDSO } = module;
  const metadata = module.getDylinkMetadata(compiled);
  if (metadata.neededDynlibs.length) refuse(`${library.name} needs other libraries`);
  if (metadata.memorySize !== library.memorySize || metadata.tableSize !== library.tableSize) refuse(`${library.name} has changed`);
  const main = LDSO.loadedLibsByName.__main__.exports;
  let own = null;
  const stubs = {};
  const env = new Proxy({}, {
    get: (_, name) => {
      if (name === "__memory_base") return library.memory;
      if (name === "__table_base") return library.table;
      if (name in main && !main[name].stub) return main[name];
      return stubs[name] ??= (...values) => (main[name]?.stub === undefined && main[name] || own[name])(...values);
    },
  });
  const got = new Proxy(metadata.weakImports, GOTHandler);
  const instance = new WebAssembly.Instance(compiled, { "GOT.mem": got, "GOT.func": got, env, wasi_snapshot_preview1: env });
  own = module.relocateExports(instance.exports, library.memory);
  if (Object.keys(own).some((name) => name.startsWith("__em_js__") || name === "__start_em_asm")) refuse(`${library.name} has JavaScript`);
  const dso = module.newDSO(library.name, library.handle, own);
  dso.global = library.global;
  dso.refcount = library.refcount ?? Infinity;
  if (library.global) module.mergeLibSymbols(own, library.name);
};

const putFunctions = (module, { functions, libraries, got, free, table }) => {
  const { LDSO, GOT, wasmTable, freeTableIndexes } = module;
  for (const [at, from, name] of functions) {
    const it = LDSO.loadedLibsByName[from].exports[name];
    if (typeof it !== "function") refuse(`there is no function ${name} in ${from}`);
    freeTableIndexes.push(at);
    if (module.addFunction(it, it.sig) !== at) refuse(`the function ${name} has another place`);
  }
  for (const library of libraries) module.updateTableMap(library.table, library.tableSize);
  for (const [name, value] of Object.entries(got)) {
    GOT[name] ??= new WebAssembly.Global({ value: "i32", mutable: true }, -1);
    GOT[name].value = value;
  }
  freeTableIndexes.length = 0;
  freeTableIndexes.push(...free);
  if (wasmTable.length !== table[1]) refuse("the table has another size");
};

// Returns options of loadPyodide that start Python from a snapshot. `compiled` has promises of WebAssembly modules by the
// names of the dynamic libraries (`compileLibraries`).
export const fromSnapshot = (create, { head, memory, files }, compiled) => ({
  _loadSnapshot: headerOf(head),
  _snapshotDeserializer: objectOf,
  createPyodideModule: async (settings) => {
    const module = await create(settings);
    const [table, tableEnd] = head.table;
    if (module.wasmTable.length !== table) refuse("another start of Pyodide");
    putFiles(module, { head, files });
    if (module.HEAPU8.length < head.size && !module.growMemory(head.size)) refuse("not enough memory");
    module.wasmTable.grow(tableEnd - table);
    for (const library of head.libraries) putLibrary(module, library, await compiled[library.name]);
    putFunctions(module, head);
    const { HEAPU8 } = module;
    HEAPU8.fill(0);
    for (let index = 0, at = 0; index < head.pages.length; index += 2) {
      const [first, count] = [head.pages[index] * PAGE, head.pages[index + 1] * PAGE];
      HEAPU8.set(memory.subarray(at, at + count), first);
      at += count;
    }
    return module;
  },
});

// Compiles the dynamic libraries, all at the same time.
export const compileLibraries = ({ head, files }) => {
  const wanted = new Set(head.libraries.map(({ name }) => name));
  const compiled = {};
  let at = 0;
  for (const { path, size = 0 } of head.files) {
    if (wanted.has(path)) {
      compiled[path] = WebAssembly.compile(files.subarray(at, at + size));
      compiled[path].catch(() => {}); // said where it is awaited
    }
    at += size;
  }
  return compiled;
};

// Pyodide's own header of a snapshot, without memory.
const MAGIC = 1886286592;
const HEADER = 48;
const headerOf = ({ build, state }) => {
  const text = new TextEncoder().encode(JSON.stringify(state));
  const length = Math.ceil((HEADER + text.length) / 16) * 16;
  const header = new Uint8Array(length);
  const words = new Uint32Array(header.buffer);
  words.set([MAGIC, length, text.length, 0]);
  for (let index = 0; index < 8; index++) words[4 + index] = Number.parseInt(build.slice(8 * index, 8 * index + 8), 16);
  header.set(text, HEADER);
  return header;
};
