"""The report of an export: places of operators with reasons, sizes, and the largest error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class HostOp:
    """An operator outside of delegates.

    The runtime may still run it on the GPU, or fold it at load if it depends on constants only:
    `where` is "gpu", "host" or "load". `reasons` are the partitioner's.
    """

    op: str
    count: int
    where: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The result of an export. `text()` is for people, `json()` for programs."""

    name: str
    program: Path
    suite: Path
    program_bytes: int
    constant_bytes: int
    seconds: dict[str, float]  # by stage
    quantize: str | None
    half: bool
    delegates: int  # in the file; the runtime joins consecutive delegates
    gpu_ops: dict[str, int]  # inside of delegates, with counts
    host_ops: tuple[HostOp, ...]
    submissions: int | None  # per call; None: not counted
    passed: bool
    max_abs: float | None  # against PyTorch, on NumPy; None: it did not run, or gave NaN
    max_rel: float | None
    problem: str | None  # reason why it did not pass
    extra: Mapping[str, Any] = field(default_factory=dict)  # facts of special exports

    def json(self) -> dict[str, Any]:
        """Return everything for `json.dumps`; paths are names of files in the report's folder."""
        raw = asdict(self)
        raw |= {"program": self.program.name, "suite": self.suite.name, "extra": dict(self.extra)}
        return raw

    def write(self) -> Path:
        """Write the report to NAME.report.json in the program's folder."""
        path = self.program.with_suffix(".report.json")
        path.write_text(json.dumps(self.json(), indent=1) + "\n", encoding="utf-8")
        return path

    def text(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        total = sum(self.gpu_ops.values())
        kind = " ".join(
            [*([self.quantize] if self.quantize else []), *(["half"] if self.half else [])]
        )
        lines = [
            f"{_short(self.program)}: {_megabytes(self.program_bytes)}, of which weights "
            f"{_megabytes(self.constant_bytes)}{f' ({kind})' if kind else ''}",
            f"  in {self.delegates} delegate{'' if self.delegates == 1 else 's'}: "
            f"{total:,} calls of {len(self.gpu_ops)} operators",
        ]
        lines += [f"    {count:5,} {op}" for op, count in _by_count(self.gpu_ops)]
        if self.host_ops:
            lines.append("  outside of delegates:")
        for op in self.host_ops:
            why = f": {'; '.join(op.reasons)}" if op.reasons else ""
            lines.append(f"    {op.count:5,} {op.op} ({_PLACES[op.where]}){why}")
        if self.submissions is not None:
            lines.append(f"  submissions to the GPU per call: {self.submissions}")
        lines.append(f"  on NumPy against PyTorch: {self._verdict()}")
        lines += [f"  {key.replace('_', ' ')}: {value}" for key, value in self.extra.items()]
        lines.append(
            "  " + ", ".join(f"{stage} {took:.1f} s" for stage, took in self.seconds.items())
        )
        return lines

    def _verdict(self) -> str:
        if self.passed and self.problem is None and self.max_abs is None:
            return "equal or within the tolerance, with NaN or infinities"
        if self.max_abs is None or self.max_rel is None:
            return f"failed: {self.problem}"
        sizes = f"largest error {self.max_abs:.2e}, relative {self.max_rel:.2e}"
        return sizes if self.passed else f"{sizes}, FAILED: {self.problem}"


_PLACES = {"gpu": "offloaded to the GPU", "load": "computed at load", "host": "on the host"}


def _by_count(ops: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(ops.items(), key=lambda item: (-item[1], item[0]))


def _short(path: Path) -> Path:
    """Return a path from the current folder, if it is inside."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.2f} MB"
