// `node compile_samples.mjs FOLDER PACKAGE SAMPLES OUT NAME...` compiles samples of the page, a card NAME.json and a
// program NAME.pte each in SAMPLES, into folders of a new archive OUT. FOLDER has Pyodide, whose NumPy webpte needs;
// PACKAGE is the archive of webpte. A sample that cannot be compiled is left out.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const COMPILE = `
import json
import sys
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True

import webpte

EPOCH = (2020, 1, 1, 0, 0, 0)
with zipfile.ZipFile("/tmp/out.zip", "w") as archive:
    for card in sorted(Path("/tmp/samples").glob("*.json")):
        program, out = card.with_suffix(".pte").read_bytes(), Path("/tmp/out", card.stem)
        try:
            made = await webpte.compile(program, out, name=card.stem, task=json.loads(card.read_text()))
        except webpte.WebpteError:
            continue
        for name in made.sizes:
            archive.writestr(zipfile.ZipInfo(f"{card.stem}/{name}", EPOCH), (out / name).read_bytes())
`;

const main = async (folder, webpte, samples, out, ...names) => {
  const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
  const python = await loadPyodide({ indexURL: folder, packages: ["numpy", "flatbuffers"] });
  python.unpackArchive(new Uint8Array(readFileSync(webpte)), "zip");
  python.FS.mkdir("/tmp/samples");
  for (const name of names.flatMap((one) => [`${one}.json`, `${one}.pte`])) {
    python.FS.writeFile(`/tmp/samples/${name}`, readFileSync(`${samples}/${name}`));
  }
  await python.runPythonAsync(COMPILE);
  writeFileSync(out, python.FS.readFile("/tmp/out.zip"));
};

main(...process.argv.slice(2)).catch((error) => {
  console.error(String(error.message).trim()); // without the source line: Pyodide's script is one line
  process.exitCode = 1;
});
