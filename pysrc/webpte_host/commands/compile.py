"""`serve.py compile`: writes a folder that runs a program in a web page without Python."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from webpte_host.base.descriptions import described
from webpte_host.base.errors import HostError
from webpte_host.base.json_files import read_table
from webpte_host.base.layout import WEB
from webpte_host.base.progress import Display
from webpte_host.models.store import CARD, ModelStore
from webpte_host.setup import environment, esbuild
from webpte_host.setup.text_libraries import text_libraries

if TYPE_CHECKING:
    from webpte import Compiled

_HUB, _NONE = "hf:", "none"
_MANIFEST = "webpte.json"
_TEXTS = {".html", ".js", ".json", ".ts", ".wgsl"}
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="serve.py compile", description=described(__doc__))
    parser.add_argument(
        "model",
        help="a .pte, a folder with one, the name of a sample or an installed model, hf:...",
    )
    parser.add_argument("out", type=Path, help="the folder: new, empty, or an earlier output")
    parser.add_argument(
        "--data", type=Path, action="append", default=[], help="a .ptd file of the program"
    )
    parser.add_argument(
        "--shapes",
        action="append",
        default=[],
        metavar="METHOD=1x40x16,...",
        help="shapes of a method's inputs to compile for; may be given several times",
    )
    parser.add_argument(
        "--task",
        default="",
        help="a task of docs/use/tasks.md, whose preparation and results are compiled, too; by "
        "default as the card or the files of the model say; none: the program alone",
    )
    options = parser.parse_args(arguments)
    found = find_program(options.model)
    shapes = [_shapes(parser, text) for text in options.shapes]
    if not environment.inside():
        return environment.rerun_inside(["compile", *arguments], with_browser=False)
    data = [*found.data, *options.data]
    compiled = asyncio.run(_compile(replace(found, data=data), options.out, shapes, options.task))
    _minify(compiled.folder)
    print(report(compiled))
    return 0


def _shapes(parser: argparse.ArgumentParser, text: str) -> tuple[str, list[tuple[int, ...]]]:
    """Parse a method with the shapes of its inputs; a number or a scalar has the shape "-"."""
    method, mark, listed = text.partition("=")
    sizes = [[] if shape == "-" else shape.split("x") for shape in listed.split(",")]
    if not mark or not all(size.isdecimal() for shape in sizes for size in shape):
        parser.error(f"--shapes {text}: such as forward=1x3x224x224,1x7 is needed")
    return method, [tuple(map(int, shape)) for shape in sizes]


@dataclass(frozen=True)
class FoundProgram:
    """A program, its `.ptd` files, and the card that describes it."""

    source: str
    data: Sequence[Path] = ()
    card: Path | None = None


def find_program(model: str) -> FoundProgram:
    """Return the program that a name means. Raises HostError."""
    path = Path(model)
    if model.startswith(_HUB) or path.is_file():
        return FoundProgram(model)
    for card, folder in (
        (WEB / "samples" / f"{model}.json", WEB / "samples"),
        (ModelStore().folder / model / CARD, ModelStore().folder / model),
    ):
        if "/" not in model and card.is_file():
            files = read_table(card, HostError).table("files")
            program = files.text("program") if "program" in files else f"{model}.pte"
            return FoundProgram(str(folder / program), card=card)
    if (path / _MANIFEST).is_file():
        return FoundProgram(str(path / _MANIFEST))
    programs = sorted(path.glob("*.pte"))
    if len(programs) != 1:
        found = f"it has {len(programs)} programs" if path.is_dir() else "there is none"
        raise HostError(f"{model} is no .pte, no folder with one, and no model's name: {found}.")
    return FoundProgram(str(programs[0]), sorted(path.glob("*.ptd")))


async def _texts(found: FoundProgram) -> dict[str, bytes]:
    """Return the tokenizer next to a program, and the libraries for it; {} without a tokenizer."""
    from webpte.engine.open.siblings import names_beside, read_sibling
    from webpte.tasks.files import find_program as find_model

    entry = await find_model(found.source)
    texts: dict[str, bytes] = {}
    for name in _TOKENIZER:
        for one in names_beside(entry, name):
            if name not in texts and (data := await read_sibling(entry, one)) is not None:
                texts[name] = data
    return {**texts, **text_libraries(Display())} if _TOKENIZER[0] in texts else {}


async def _task(found: FoundProgram, named: str) -> tuple[str | dict[str, Any] | None, list[str]]:
    """Return the task to compile, or a card that describes it, and the labels of the card."""
    from webpte import tasks
    from webpte.errors import WebpteError
    from webpte.tasks.detect import detect
    from webpte.tasks.files import find_program as find_model

    if named:
        return (None if named == _NONE else named), []
    if found.card is not None:
        card = json.loads(found.card.read_text("utf-8"))
        listed = [one.get("labels") for one in card.get("outputs") or ()]
        named_file = next((one for one in listed if isinstance(one, str)), None)
        text = (found.card.parent / named_file).read_text("utf-8") if named_file else ""
        return card, text.splitlines()
    if not found.data:
        with contextlib.suppress(WebpteError):
            folder = Path(found.source).parent if Path(found.source).is_file() else found.source
            task = await detect(await find_model(folder), tasks.names())
            if tasks.find(task).compiled is not tasks.Task.compiled:
                return task, []
    return {}, []


async def _compile(
    found: FoundProgram,
    out: Path,
    shapes: Sequence[tuple[str, list[tuple[int, ...]]]],
    named: str,
) -> Compiled:
    import webpte

    source, data = found.source, found.data
    task, labels = await _task(found, named)
    examples: dict[str, list[Any]] = {}
    if shapes:
        infos = {
            method.name: method for method in (await webpte.inspect(source, data=data)).values()
        }
        for name, sizes in shapes:
            if name not in infos:
                raise HostError(f"--shapes {name}: the methods are {', '.join(infos)}.")
            examples.setdefault(name, []).append(_example(infos[name], sizes))
    more = {} if named == _NONE else await _texts(found)
    return await webpte.compile(
        source, out, data=data, examples=examples, task=task, labels=labels, more=more
    )


def _example(method: Any, sizes: Sequence[tuple[int, ...]]) -> list[Any]:
    import numpy as np

    if len(sizes) != len(method.inputs):
        listed = "; ".join(map(str, method.inputs))
        raise HostError(f"--shapes {method.name}: its inputs are {listed}.")
    return [
        np.zeros(shape, one.array_dtype) if hasattr(one, "array_dtype") else one.value
        for one, shape in zip(method.inputs, sizes, strict=True)
    ]


def _minify(folder: Path) -> None:
    """Minify the runtime in a folder."""
    for module in folder.glob("webpte-*.js"):
        made = module.with_name(f".{module.name}")
        made.write_text(esbuild.minified(module.read_text("utf-8"), Display()), "utf-8")
        os.replace(made, module)


def report(compiled: Compiled) -> str:
    """Return a line for each file: its bytes, and its bytes when a server compresses texts."""
    rows = []
    for name in compiled.sizes:
        path = compiled.folder / name
        size = path.stat().st_size
        # Weights may be gigabytes, and a browser reads ranges, which no server compresses.
        is_text = path.suffix in _TEXTS
        rows.append((name, size, len(gzip.compress(path.read_bytes(), 9)) if is_text else size))
    rows.append(("in all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    width = max(len(name) for name, *_ in rows)
    lines = [
        f"{name:<{width}}  {size:>12,} bytes  {sent:>12,} compressed" for name, size, sent in rows
    ]
    methods = ", ".join(compiled.methods)
    return "\n".join([f"{compiled.folder}: {methods}", *lines])
