// `node precompile.mjs FOLDER LIBRARY START BYTECODE SOURCES ARCHIVE...` compiles the modules that a start of the page imports: those
// of Python's library in a folder of Pyodide, which go to a copy of it, LIBRARY, and alone and without sources to START;
// all others, NumPy's among them, go to the file BYTECODE (boot/bytecode.py). Pyodide's own Python compiles them: it reads
// no other bytecode. SOURCES has the hashes of the sources of webpte's and the page's. ARCHIVEs hold the modules of webpte and the page.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

// Only part of the library: all of it would add 4.5 MB to the first visit instead of 1.6. Sources stay in the
// archive for tracebacks. Hashes of modules are not checked: the archive is replaced as a whole.
const COMPILE = `
import importlib._bootstrap_external as bootstrap
import json
import sys
import zipfile
from hashlib import sha256
from importlib.util import source_hash
from pathlib import Path

sys.dont_write_bytecode = False

from boot import bytecode
from boot.imports import import_modules

generated = bytecode.Generated({})
import_modules()
generated.end()
sys.dont_write_bytecode = True
modules = bytecode.compiled_modules(list(sys.modules.values()))
bytecode.write_file(Path("/tmp/bytecode"), modules, generated.used)
home = f"{Path.cwd()}/"
files = [file for file, *_ in modules.values() if file.startswith(home)]
sources = {file.removeprefix(home): sha256(Path(file).read_bytes()).hexdigest() for file in files}
Path("/tmp/sources").write_text(json.dumps(sources, indent=0))
PLACE = next(place for place in sys.path if place.endswith(".zip"))
EPOCH = (2020, 1, 1, 0, 0, 0)
specs = [getattr(module, "__spec__", None) for module in sys.modules.values()]
origins = {str(spec.origin).removesuffix("c") for spec in specs if spec is not None}
later = []  # modules that the library of a start has not
with (
    zipfile.ZipFile("/tmp/before.zip") as before,
    zipfile.ZipFile("/tmp/after.zip", "w") as after,
    zipfile.ZipFile("/tmp/start.zip", "w") as start,
):
    def add(name, data, *archives):
        for archive in archives:
            archive.writestr(zipfile.ZipInfo(name, EPOCH), data, zipfile.ZIP_DEFLATED, 9)

    for name in before.namelist():
        if name.endswith(".pyc"):
            continue  # of a time before
        data = before.read(name)
        own = "pyodide" in name.split("/")[0]  # Pyodide's, which it may import before a module can be fetched
        add(name, data, after, *[start] * own)
        if f"{PLACE}/{name}" in origins:
            code = compile(data, f"{PLACE}/{name}", "exec", dont_inherit=True)
            packed = bytes(bootstrap._code_to_hash_pyc(code, source_hash(data), False))
            add(f"{name}c", packed, after, start)
        elif name.endswith(".py") and not own:
            later.append(name.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    add("later.txt", "\\n".join(later), start)
`;

const main = async (folder, library, start, bytecode, sources, ...archives) => {
  const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
  const python = await loadPyodide({ indexURL: folder, packages: ["numpy", "flatbuffers"] });
  for (const archive of archives) python.unpackArchive(new Uint8Array(readFileSync(archive)), "zip");
  python.FS.writeFile("/tmp/before.zip", readFileSync(`${folder}/python_stdlib.zip`));
  python.runPython(COMPILE);
  writeFileSync(library, python.FS.readFile("/tmp/after.zip"));
  writeFileSync(start, python.FS.readFile("/tmp/start.zip"));
  writeFileSync(bytecode, python.FS.readFile("/tmp/bytecode"));
  writeFileSync(sources, python.FS.readFile("/tmp/sources"));
};

main(...process.argv.slice(2)).catch((error) => {
  console.error(String(error.message).trim()); // without the source line: Pyodide's script is one line
  process.exitCode = 1;
});
