"""Checks an export: its error on NumPy, and the place of each of its operators with a GPU."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import webpte
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.engine.load.program_file import OPTIONAL_METHODS, read_contents
from webpte.engine.open.open_source import open_bytes, open_source
from webpte_export.report import HostOp
from webpte_export.suites.suite import parse_entry, run_entry

# The simulated device, which counts submissions, computes with NumPy: too slow for large models.
_MOST_BYTES_TO_COUNT = 64 * 2**20

T = TypeVar("T")
Reasons = Mapping[str, tuple[str, ...]]  # operator -> reason of the partitioner


@dataclass(frozen=True)
class Placement:
    """The operators of a program, and their places."""

    delegates: int
    constants: dict[str, int]  # bytes by name; methods share constants with the same name
    gpu_ops: dict[str, int]
    host_ops: tuple[HostOp, ...]
    submissions: int | None  # of a call; with several methods, the largest number
    problem: str | None = None  # reason why it would not run on a GPU

    @property
    def constant_bytes(self) -> int:
        """Bytes of all constants."""
        return sum(self.constants.values())

    def __or__(self, other: Placement) -> Placement:
        """Return both methods together."""
        counts = [n for n in (self.submissions, other.submissions) if n is not None]
        return Placement(
            delegates=self.delegates + other.delegates,
            constants=self.constants | other.constants,
            gpu_ops=dict(Counter(self.gpu_ops) + Counter(other.gpu_ops)),
            host_ops=(*self.host_ops, *other.host_ops),
            submissions=max(counts, default=None),
            problem=self.problem or other.problem,
        )


@dataclass(frozen=True)
class Verdict:
    """The errors of a method, or of several methods."""

    passed: bool
    max_abs: float | None
    max_rel: float | None
    problem: str | None

    def __or__(self, other: Verdict) -> Verdict:
        """Return both methods together: the larger errors, and the first problem."""
        return Verdict(
            passed=self.passed and other.passed,
            max_abs=_largest([self.max_abs, other.max_abs]),
            max_rel=_largest([self.max_rel, other.max_rel]),
            problem=self.problem or other.problem,
        )


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end; in a thread if a loop is already running, as in notebooks."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def check_readable(program: bytes) -> None:
    """Raise webpte's error for a program that it cannot read."""

    async def read() -> None:
        await read_contents(open_bytes(program, "the program"), optional=OPTIONAL_METHODS)

    wait_for(read())


def check_on_numpy(suite: Path, entry: dict[str, Any]) -> Verdict:
    """Run the suite's entry on NumPy and compare it by the rules of `serve.py verify`."""

    async def fetch_bytes(path: str) -> bytes:
        return (suite / path).read_bytes()

    work = run_entry(entry, fetch_bytes, "numpy", locate=lambda path: suite / path)
    result = wait_for(work)
    outputs = result["outputs"]
    return Verdict(
        passed=result["verdict"] == "passed",
        max_abs=_largest([row["max_abs"] for row in outputs]),
        max_rel=_largest([row["max_rel"] for row in outputs]),
        problem=result["error"],
    )


def _largest(errors: list[float | None]) -> float | None:
    known = [error for error in errors if error is not None]
    return max(known) if known and len(known) == len(errors) else None


def place(suite: Path, entry: dict[str, Any], reasons: Reasons) -> Placement:
    """Find where the operators of a program run."""
    return wait_for(_place(suite, entry, reasons))


async def _place(suite: Path, raw: dict[str, Any], reasons: Reasons) -> Placement:
    entry = parse_entry(raw)
    contents = await read_contents(await open_source(suite / entry.pte), optional=OPTIONAL_METHODS)
    method = contents.methods[entry.method]
    submissions, where, problem = None, {}, None
    try:
        async with await webpte.load(
            suite / entry.pte, device=SimulatedDevice(), optional=OPTIONAL_METHODS
        ) as program:
            where = _places(program, entry.method)
            if method.info.constant_bytes <= _MOST_BYTES_TO_COUNT:
                inputs = [
                    file.decode((suite / file.path).read_bytes()) for file in entry.steps[0].inputs
                ]
                await program.run(entry.method, *inputs)
                submissions = program.stats.submissions
                where = _places(program, entry.method)
    except webpte.WebpteError as error:  # report it rather than lose an export of minutes
        problem = f"on a GPU: {type(error).__name__}: {error}"
    except MemoryError as error:
        problem = f"there is not enough memory to try it: {error}; is the max of a Dim too large?"
    return Placement(
        delegates=len(method.plan.delegates),
        constants={
            constant.key or f"{entry.method} {number}": constant.nbytes
            for number, constant in enumerate(method.info.constants)
        },
        gpu_ops=dict(method.info.ops),
        host_ops=tuple(
            HostOp(op, count, where.get(op, "host"), reasons.get(_aten_name(op), ()))
            for op, count in sorted(method.info.kernels_outside.items())
        ),
        submissions=submissions,
        problem=problem,
    )


def _places(program: webpte.Program, method: str) -> dict[str, str]:
    """Map each kernel outside of delegates to the worst place of its calls."""
    rank = {"load": 0, "gpu": 1, "host": 2}
    found: dict[str, str] = {}
    for row in program.report:
        where = "load" if row.where == "alias" else row.where
        if row.method == method and rank[where] >= rank[found.get(row.op, "load")]:
            found[row.op] = where
    return found


def _aten_name(kernel: str) -> str:
    """Return the partitioner's name of a kernel: `aten.abs` for `aten::abs.out`."""
    return kernel.replace("::", ".").rpartition(".")[0] if "." in kernel else kernel
