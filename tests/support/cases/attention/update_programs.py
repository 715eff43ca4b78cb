"""A program that updates two caches, and then attends to them with custom_sdpa."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from support.cases.attention.attention_programs import CacheCase
from support.cases.cases import Array
from support.write.pte_writer import GraphWriter, write_pte


@dataclass(frozen=True)
class UpdateCase(CacheCase):
    """A CacheCase that writes its caches with update_cache; its label tells so."""

    label: str = "updated"
    op: str = field(default="sdpa_with_kv_cache.default", init=False, repr=False)

    def program(self) -> bytes:
        g = GraphWriter()
        tokens = max(tokens for tokens, _ in self.steps)
        q = g.tensor((self.batch, tokens, self.heads, self.size))
        fresh = [g.tensor((self.batch, tokens, self.key_heads, self.size)) for _ in range(2)]
        caches = [g.tensor(cache.shape, constant=cache) for cache in self.caches]
        source, position = g.tensor((1,), "int32"), g.symint()
        g.op("et_vk.select_as_symint.default", source, g.int(0), g.int(0), position)
        for new, cache in zip(fresh, caches, strict=True):
            g.op("update_cache.default", new, cache, position, g.tensor((1,)))
        out = g.tensor((self.batch, tokens, self.heads, self.size))
        rest = (g.null(), g.int(0), g.bool_(True), g.null())
        g.op("custom_sdpa.default", q, *caches, position, *rest, out)
        g.inputs(q, *fresh, source)
        g.outputs(out)
        for value in (q, *fresh, out):
            g.host(value, dynamic=True)
        return write_pte(g)

    def inputs(self, index: int) -> list[Array]:
        step, (_, position) = self.data[index], self.steps[index]
        return [step["q"], step["k"], step["v"], np.array([position], np.int32)]
