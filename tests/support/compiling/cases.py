"""Cases of suites, compiled, and two ways to run them: in a page, and by Python in the page."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import webpte
from webpte.errors import UnsupportedError
from webpte_export.suites.suite import TensorFile, parse_entry
from webpte_host.harness.browser import Harness

_COMPILED = Path(__file__).with_name("run_cases.js").read_text("utf-8")

_PYTHON = """
import base64
import numpy as np
import webpte
from webpte.engine.call.options import DeveloperOptions

arrays = {"bfloat16": "float32"}

def array(one):
    data = bytearray(base64.b64decode(one["data"]))
    return np.frombuffer(data, arrays.get(one["dtype"], one["dtype"])).reshape(one["shape"])

def text(output):
    if isinstance(output, int):
        return [output]
    return [base64.b64encode(output.tobytes()).decode(), list(output.shape)]

results = []
for done, case in enumerate(cases):
    report_progress("case", done, len(cases))
    options = DeveloperOptions(phone=True, tuned=False)
    async with await webpte.load(case["url"], options=options) as program:
        found = []
        for inputs in case["steps"]:
            given = [array(one) if "data" in one else one["number"] for one in inputs]
            found.append([text(one) for one in await program.run(case["method"], *given)])
    results.append(found)
return results
"""


@dataclass(frozen=True)
class CompiledCase:
    """A case that was compiled into a folder; `url` is the program's."""

    name: str
    folder: str
    url: str
    method: str
    steps: list[list[dict[str, Any]]]


def _given(folder: Path, file: TensorFile) -> tuple[Any, dict[str, Any]]:
    """Return an input as Python takes it, and as text."""
    data = (folder / file.path).read_bytes()
    array = file.decode(data)
    if file.scalar:
        return array.item(), {"number": array.item()}
    text = base64.b64encode(array.tobytes()).decode()
    return array, {"dtype": file.dtype, "shape": list(file.shape), "data": text}


def compile_program(program: Any, out: Path, examples: Any = None, **options: Any) -> None:
    """Compile in another thread, because Playwright's event loop runs here."""
    work = webpte.compile(program, out, examples=examples, **options)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, work).result()


def large(folder: Path) -> Path:
    """Let the runtime of a compiled folder count files from 1 KB on as large."""
    runtime = folder / "webpte-run.js"
    text = runtime.read_text("utf-8")
    assert text.count("LARGE_FILE = 64 << 20") == 1
    runtime.write_text(text.replace("LARGE_FILE = 64 << 20", "LARGE_FILE = 1 << 10"), "utf-8")
    return folder


def compile_cases(
    entries: Iterable[tuple[str, dict[str, Any]]], suites: Path, out: Path, url: str
) -> tuple[list[CompiledCase], dict[str, str]]:
    """Compile cases; returns them, and why others cannot be compiled.

    entries  the suite of each entry, a folder of `suites`, which is served at `url`
    """
    compiled, refused = [], {}
    for suite, entry in entries:
        found = parse_entry(entry)
        name = f"{suite}:{found.op}:{found.case}"
        steps = [[_given(suites / suite, one) for one in step.inputs] for step in found.steps]
        examples = {found.method: [[array for array, _ in step] for step in steps]}
        folder = name.replace(":", ".")
        try:
            compile_program(suites / suite / found.pte, out / folder, examples)
        except UnsupportedError as error:
            refused[name] = str(error)
            continue
        texts = [[text for _, text in step] for step in steps]
        place = f"{url}{suite}/{found.pte}"
        compiled.append(CompiledCase(name, folder, place, found.method, texts))
    return compiled, refused


def run_compiled(harness: Harness, base: str, cases: Sequence[CompiledCase]) -> list[Any]:
    """Run compiled programs in a page; returns the outputs of each step, or an error's text."""
    found: list[Any] = harness.page.evaluate(_COMPILED, [base, [vars(case) for case in cases]])
    return found


def run_by_python(harness: Harness, cases: Sequence[CompiledCase]) -> list[Any]:
    """Run programs by Python in the same page."""
    found: list[Any] = harness.python(_PYTHON, cases=[vars(case) for case in cases])
    return found


def differences(one: Any, other: Any) -> str:
    """Return where the outputs of two runs differ; "" if their bytes are equal."""
    if one == other:
        return ""
    if len(one) != len(other) or not all(isinstance(step, list) for step in one):
        return f"{one!r:.300} and {other!r:.100}"
    for step, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        for index, (left, right) in enumerate(zip(mine, theirs, strict=True)):
            if left != right:
                return f"step {step}, output {index}: {_apart(left, right)}"
    return "the numbers of outputs differ"


def _apart(left: Any, right: Any) -> str:
    if len(left) != len(right) or left[1:] != right[1:]:
        return f"{left[1:]} and {right[1:]}"
    if len(left) == 1:
        return f"{left} and {right}"
    first, second = (np.frombuffer(base64.b64decode(one[0]), np.uint8) for one in (left, right))
    if first.size != second.size:
        return f"{first.size} and {second.size} bytes"
    return f"{int((first != second).sum())} of {first.size} bytes differ"
