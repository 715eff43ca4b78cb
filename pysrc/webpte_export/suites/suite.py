"""Runs an entry of a suite and compares its outputs: the part of `verify` next to the device.

A suite is a folder with a `manifest.json`, a list of entries, and the raw little-endian files that
they name. An entry loads a program once and calls a method once per step, in order; the program's
state (a KV cache) carries over from step to step:

    {"op", "case", "pte", "method"?, "atol", "rtol", "equal_nan"?,
     "steps": [{"inputs":  [{"path", "shape", "dtype", "scalar"?}],
                "goldens": [{"path", "shape", "dtype", "output_index", "atol"?}]}]}

In place of `steps`, `inputs` and `golden` may stand in the entry itself: a single step with a
single output. An input that is a `scalar` is given to the program as a number. Other keys are
ignored. An element passes if its absolute error is within `atol` (the golden's own, if it has one)
or its relative error within `rtol`; NaN passes only for NaN, and only with `equal_nan`; integers
and bools must be equal.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

import webpte
from webpte.engine.dtypes import DTYPES
from webpte.engine.files.arrays import MAX_DIMS
from webpte.engine.files.json_reader import Table, shown
from webpte.engine.gpu.device import Device
from webpte.engine.load.program_file import OPTIONAL_METHODS
from webpte.errors import WebpteError
from webpte.inspection.report.difference import EXACT, Difference, Tolerance, difference

Array = np.ndarray[Any, np.dtype[Any]]
FetchBytes = Callable[[str], Awaitable[bytes]]
Progress = Callable[[str, int, int], None]


class SuiteError(WebpteError):
    """An error in the suite itself: an entry that cannot be read, a file of the wrong size."""


@dataclass(frozen=True)
class TensorFile:
    path: str
    shape: tuple[int, ...]
    dtype: str
    output_index: int = 0
    atol: float | None = None  # None: the entry's
    scalar: bool = False

    def decode(self, data: bytes) -> Array:
        dtype = DTYPES[self.dtype]
        expected = math.prod(self.shape) * dtype.itemsize
        if len(data) != expected:
            raise SuiteError(
                f"{self.path} has {len(data)} bytes, but {self.dtype} {list(self.shape)} "
                f"takes {expected}"
            )
        return dtype.from_bytes(bytearray(data)).reshape(self.shape)


@dataclass(frozen=True)
class SuiteStep:
    inputs: tuple[TensorFile, ...]
    goldens: tuple[TensorFile, ...]


@dataclass(frozen=True)
class SuiteEntry:
    op: str
    case: str
    pte: str
    method: str
    steps: tuple[SuiteStep, ...]
    atol: float
    rtol: float
    equal_nan: bool = False

    @property
    def id(self) -> str:
        return f"{self.op}__{self.case}"

    def tolerance(self, golden: TensorFile) -> Tolerance:
        """Return the pass rule of an output."""
        atol = self.atol if golden.atol is None else golden.atol
        return suite_tolerance(atol, self.rtol, equal_nan=self.equal_nan)


def parse_entry(raw: object) -> SuiteEntry:
    """Parse a manifest entry. Raises SuiteError that names the entry and the key."""
    if not isinstance(raw, dict):
        raise SuiteError(f"an entry must be an object, not {type(raw).__name__}")
    op, case = (shown(raw.get(key, "?")).strip('"') for key in ("op", "case"))
    table = Table(raw, f"entry {op}__{case}", SuiteError)
    if "steps" in table:
        steps = tuple(
            SuiteStep(_tensor_files(step, "inputs"), _tensor_files(step, "goldens"))
            for step in table.tables("steps")
        )
    else:
        golden = (_tensor_file(table.table("golden")),)
        steps = (SuiteStep(_tensor_files(table, "inputs"), golden),)
    if not any(step.goldens for step in steps):
        raise SuiteError(f"{table.name}: no golden output, so there is nothing to check")
    return SuiteEntry(
        op=table.text("op"),
        case=table.text("case"),
        pte=_relative(table, "pte"),
        method=table.text("method", "forward"),
        steps=steps,
        atol=float(table.number("atol")),
        rtol=float(table.number("rtol")),
        equal_nan=table.flag("equal_nan", False),
    )


def _tensor_files(table: Table, key: str) -> tuple[TensorFile, ...]:
    table.listed(key)  # must be there, also as null
    return tuple(_tensor_file(file) for file in table.tables(key))


def _tensor_file(table: Table) -> TensorFile:
    path = _relative(table, "path")
    shape = table.listed("shape")
    sizes = all(type(size) is int and 0 <= size < 1 << 48 for size in shape)
    if not sizes or len(shape) > MAX_DIMS:
        raise SuiteError(f"{table.name}: {path}: shape is not a list of sizes: {shown(shape)}")
    dtype = table.text("dtype")
    if dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise SuiteError(f"{table.name}: {path}: unknown dtype {shown(dtype)}; known: {known}")
    scalar, index = table.flag("scalar", False), table.integer("output_index", 0)
    if scalar and shape:
        raise SuiteError(f"{table.name}: {path}: a scalar has no shape, got {shown(shape)}")
    return TensorFile(path, tuple(shape), dtype, index, table.number("atol", None), scalar)


def _relative(table: Table, key: str) -> str:
    path = table.text(key)
    pure = PurePosixPath(path)
    if not path or "\\" in path or "\0" in path or pure.is_absolute() or ".." in pure.parts:
        raise SuiteError(f"{table.name}: {shown(path)} is not a path inside the suite")
    return path


@dataclass(frozen=True)
class OutputDifference:
    """The largest errors of an output; None if they are not finite, or the shapes differ."""

    max_abs: float | None
    max_rel: float | None
    problem: str | None  # None: passed
    used: float | None = None  # used share of the tolerance; up to 1 passes


def suite_tolerance(atol: float, rtol: float, *, equal_nan: bool = False) -> Tolerance:
    """Return the pass rule of the suites: within `atol` or within `rtol`."""
    return Tolerance(rtol, atol, combine="either", equal_nan=equal_nan)


def compare(result: object, golden: Array, tolerance: Tolerance) -> OutputDifference:
    """Compare an output with its golden; integers and bools must be equal."""
    scalar = isinstance(result, bool | int | float)
    got = np.asarray(result, golden.dtype if scalar else None)
    if not _same_dtype(got.dtype, golden.dtype):
        return OutputDifference(None, None, f"dtype {got.dtype}, expected {golden.dtype}")
    if got.shape != golden.shape:
        return OutputDifference(
            None, None, f"shape {list(got.shape)}, expected {list(golden.shape)}"
        )
    exact = golden.dtype.kind != "f"
    found = difference(got, golden, EXACT if exact else tolerance)
    problem = None if found.agrees else _describe(got, golden, found, tolerance)
    figures = (found.max_abs, found.max_rel, found.used)
    max_abs, max_rel, used = (_finite(figure) for figure in figures)
    return OutputDifference(max_abs, max_rel, problem, used)


def _same_dtype(got: np.dtype[Any], want: np.dtype[Any]) -> bool:
    integers = {np.dtype("int32"), np.dtype("int64")}
    return got == want or {got, want} == integers


def _describe(got: Array, golden: Array, found: Difference, tolerance: Tolerance) -> str:
    exact = golden.dtype.kind != "f"
    rule = "" if exact else f" (atol {tolerance.atol:g}, rtol {tolerance.rtol:g})"
    return (
        f"{found.wrong} of {found.count} elements differ{rule}, worst at {list(found.worst)}: "
        f"got {got[found.worst]!s}, expected {golden[found.worst]!s}"
    )


def _finite(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


@dataclass
class RunOutputs:
    """The output of a run for each golden, and its kernels."""

    outputs: list[Array] = field(default_factory=list)
    kernels: frozenset[str] = frozenset()


async def run_entry(
    raw: object,
    fetch_bytes: FetchBytes,
    device: str | Device = "webgpu",
    *,
    locate: Callable[[str], str | Path] | None = None,
    progress: Progress | None = None,
    options: webpte.Options | None = None,
    seen: RunOutputs | None = None,
) -> dict[str, Any]:
    """Run an entry of a manifest; the result is a JSON-able report, also of failures.

    `fetch_bytes` gets the content of a file of the suite. `locate` turns its path into a URL or a
    file for `webpte.load`; without it the program is fetched too. `progress` is called as by
    `webpte.load`, and then before every step with the stage "step"; `options` are arguments of
    `webpte.load`. `seen` receives the outputs for a comparison with another run.
    """
    entry = parse_entry(raw)
    report: dict[str, Any] = {"op": entry.op, "case": entry.case, "verdict": "failed"}
    report |= {"error": None, "outputs": [], "ops": [], "ran": None}
    started = time.perf_counter()
    try:
        source = locate(entry.pte) if locate else await fetch_bytes(entry.pte)
        program = await _load(source, device, report, progress, options)
        try:
            problems = await _run_steps(
                program, entry, fetch_bytes, report["outputs"], progress, seen
            )
            report["ran"] = _where(program)
            if seen is not None:
                seen.kernels = program.kernels
        finally:
            program.close()
        report["error"] = "; ".join(problems) or None
    except Exception as error:  # any exception is this entry's failure
        report["error"] = f"{type(error).__name__}: {error}"
    report["verdict"] = "passed" if report["error"] is None else "failed"
    report["ms"] = round((time.perf_counter() - started) * 1000, 3)
    return report


async def _load(
    source: Any,
    device: str | Device,
    report: dict[str, Any],
    progress: Progress | None,
    options: webpte.Options | None,
) -> webpte.Program:
    """Load the program; the report gets its operators even if loading fails."""
    try:
        program = await webpte.load(
            source, device=device, progress=progress, options=options, optional=OPTIONAL_METHODS
        )
        methods = program.methods
    except Exception:
        with contextlib.suppress(Exception):
            report["ops"] = _op_names(await webpte.inspect(source))
        raise
    report["ops"] = _op_names(methods)
    return program


def _where(program: webpte.Program) -> dict[str, Any]:
    """Count dispatches, calls on the GPU, calls without work, and calls on the host."""
    counts: dict[str, Counter[str]] = {"gpu": Counter(), "alias": Counter(), "host": Counter()}
    for row in program.report:
        counts[row.where][row.op] += row.count
    return {
        "dispatches": program.stats.dispatches,
        "gpu": counts["gpu"].total(),
        "alias": counts["alias"].total(),
        "host": dict(counts["host"]),
    }


def _op_names(methods: Mapping[str, webpte.MethodInfo]) -> list[str]:
    return sorted({name for method in methods.values() for name in method.ops})


async def _run_steps(
    program: webpte.Program,
    entry: SuiteEntry,
    fetch_bytes: FetchBytes,
    outputs: list[dict[str, Any]],
    progress: Progress | None,
    seen: RunOutputs | None,
) -> list[str]:
    """Call the program step by step, append to `outputs`, and return the problems."""
    problems = []
    for number, step in enumerate(entry.steps):
        if progress is not None:
            progress("step", number + 1, len(entry.steps))
        arrays = [file.decode(await fetch_bytes(file.path)) for file in step.inputs]
        inputs = [
            array.item() if file.scalar else array
            for file, array in zip(step.inputs, arrays, strict=True)
        ]
        results = await program.run(entry.method, *inputs)
        for file in step.goldens:
            golden = file.decode(await fetch_bytes(file.path))
            if not 0 <= file.output_index < len(results):
                raise SuiteError(
                    f"{file.path} is for output {file.output_index}, "
                    f"but {entry.method} returned {len(results)}"
                )
            result = results[file.output_index]
            found = compare(result, golden, entry.tolerance(file))
            if seen is not None:
                seen.outputs.append(np.asarray(result))
            row: dict[str, Any] = {"output_index": file.output_index, "step": number}
            row |= {"max_abs": found.max_abs, "max_rel": found.max_rel, "used": found.used}
            outputs.append(row)
            if found.problem is not None:
                problems.append(_problem(file, number, len(entry.steps), found))
    return problems


def _problem(file: TensorFile, number: int, steps: int, found: OutputDifference) -> str:
    where = f"step {number}, " if steps > 1 else ""
    sizes = ""
    if found.max_abs is not None and found.max_rel is not None:
        sizes = f"max abs {found.max_abs:.3g}, max rel {found.max_rel:.3g}: "
    return f"{where}output {file.output_index}: {sizes}{found.problem}"
