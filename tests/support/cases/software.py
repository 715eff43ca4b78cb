"""Checks that software adapters get no kernels that take long to compile."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from webpte.engine.gpu.device import PipelineSpec
from webpte.engine.ops.core.records import Dispatch
from webpte.engine.plan.shaders import ShaderLibrary

T = TypeVar("T")
Pairs = tuple[tuple[str, T], ...]

_LIBRARY = ShaderLibrary()
_MOST_WORDS = 64
# Of a size that a lowering chooses. What has a constant size belongs to the barriers.
_SIZED = re.compile(r"var<workgroup> \w+: array<[^;]*, (\w+)>;")


def waits(spec: PipelineSpec) -> bool:
    """Tell whether a kernel has barriers that run.

    With one lane per row, kernels of wgsl/lib/reduce/row_reduction.wgsl and lib/pool/pool.wgsl do
    not.
    """
    return "workgroupBarrier()" in spec.code and dict(spec.overrides).get("LANES") != 1


def is_large(code: str, types: Pairs[str]) -> bool:
    sizes = {name: int(text) for name, text in types if text.isdecimal()}
    return any(sizes.get(name, 0) > _MOST_WORDS for name in _SIZED.findall(code))


@cache
def _is_slow(kernel: str, types: Pairs[str], overrides: Pairs[float]) -> bool:
    shader = _LIBRARY.assemble(kernel, types)
    spec = PipelineSpec(kernel, shader.code, shader.bindings, overrides)
    return waits(spec) or is_large(shader.code, types)


def slow_kernels(records: Iterable[Dispatch]) -> list[str]:
    found = (r for r in records if _is_slow(r.kernel, r.types, r.overrides))
    return [record.kernel for record in found]
