"""What a software adapter should not be given: kernels in which threads wait for each other."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from webpte.gpu.device import PipelineSpec
from webpte.ops.records import Dispatch
from webpte.shaders import ShaderLibrary

T = TypeVar("T")
Pairs = tuple[tuple[str, T], ...]

_LIBRARY = ShaderLibrary()


def waits(spec: PipelineSpec) -> bool:
    """With one lane to a row, the barriers of wgsl/lib/rows.wgsl and lib/pool.wgsl are left out."""
    return "workgroupBarrier()" in spec.code and dict(spec.overrides).get("LANES") != 1


@cache
def _waits(kernel: str, types: Pairs[str], overrides: Pairs[float]) -> bool:
    shader = _LIBRARY.assemble(kernel, types)
    return waits(PipelineSpec(kernel, shader.code, shader.bindings, overrides))


def kernels_that_wait(records: Iterable[Dispatch]) -> list[str]:
    found = (record for record in records if _waits(record.kernel, record.types, record.overrides))
    return [record.kernel for record in found]
