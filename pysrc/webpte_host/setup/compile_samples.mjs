// `node compile_samples.mjs FOLDER PACKAGE SAMPLES OUT NAME...` compiles samples of the page, a card NAME.json and a
// program NAME.pte each in SAMPLES, into folders of a new archive OUT. FOLDER has Pyodide, whose NumPy webpte needs;
// PACKAGE is the archive of webpte. A program that takes pictures of any size is also compiled for the size of its
// example, whose answer is then the same as in Python. A sample that cannot be compiled is left out.

import { readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const COMPILE = `
import json
import struct
import sys
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True

import numpy as np
import webpte
from webpte.compiling.task import SIDES

EPOCH = (2020, 1, 1, 0, 0, 0)


def examples(example, layout):
    """Return calls with pictures of every size; {} without an example."""
    if not example.is_file():
        return {}
    width, height = struct.unpack(">II", example.read_bytes()[16:24])
    every = [dict(N=1, C=3, H=h, W=w) for h, w in [*zip(SIDES, SIDES), (height, width)]]
    shapes = [[sizes[dim] for dim in layout] for sizes in every]
    return {"forward": [[np.zeros(shape, np.float32)] for shape in shapes]}


with zipfile.ZipFile("/tmp/out.zip", "w") as archive:
    for place in sorted(Path("/tmp/samples").glob("*.json")):
        program, out = place.with_suffix(".pte").read_bytes(), Path("/tmp/out", place.stem)
        card = json.loads(place.read_text())
        calls = examples(place.with_suffix(".png"), card["inputs"][0]["layout"])
        try:
            made = await webpte.compile(program, out, name=place.stem, task=card, examples=calls)
        except webpte.WebpteError:
            continue
        for name in made.sizes:
            archive.writestr(zipfile.ZipInfo(f"{place.stem}/{name}", EPOCH), (out / name).read_bytes())
`;

const main = async (folder, webpte, samples, out, ...names) => {
  const { loadPyodide } = await import(pathToFileURL(`${folder}/pyodide.mjs`));
  const python = await loadPyodide({ indexURL: folder, packages: ["numpy", "flatbuffers"] });
  python.unpackArchive(new Uint8Array(readFileSync(webpte)), "zip");
  python.FS.mkdir("/tmp/samples");
  const copy = (from, to) => python.FS.writeFile(`/tmp/samples/${to}`, readFileSync(`${samples}/${from}`));
  for (const name of names) {
    const card = JSON.parse(readFileSync(`${samples}/${name}.json`));
    const example = String([card.files.example].flat()[0]);
    if (example.endsWith(".png")) copy(example, `${name}.png`);
    for (const one of [`${name}.json`, `${name}.pte`]) copy(one, one);
  }
  await python.runPythonAsync(COMPILE);
  writeFileSync(out, python.FS.readFile("/tmp/out.zip"));
};

main(...process.argv.slice(2)).catch((error) => {
  console.error(String(error.message).trim()); // without the source line: Pyodide's script is one line
  process.exitCode = 1;
});
