"""A hash that distinguishes programs, without reading all of their weights.

The hash leaves out state, so it does not depend on the length or the storage of a KV cache.
"""

from __future__ import annotations

import asyncio
import hashlib

from webpte.engine.files.source import BytesSource, Region
from webpte.engine.graph.graph import Graph
from webpte.engine.load.program_file import Contents
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import constant_transfers

SAMPLES = 16  # number of weights that are sampled: the largest weights
SAMPLE_BYTES = 4096  # bytes from the middle of each weight


async def fingerprint(contents: Contents) -> str:
    """Return the hash of a program's size, operators, sizes of weights, and samples of weights."""
    found = hashlib.sha256(f"{contents.source.size}".encode())
    weights: dict[Region, None] = {}
    for name, method in contents.methods.items():
        for graph in filter(None, method.graphs):
            found.update(repr((name, list(graph.op_counts().items()))).encode())
            weights |= dict.fromkeys(_weights(graph))
    for region in weights:
        found.update(repr((region.offset, region.size)).encode())
        if isinstance(region.source, BytesSource) and not region.source.is_unchanged:
            # a LoRA may be replaced by another of equal size
            found.update(await region.read(0, region.size))
    largest = sorted(weights, key=lambda region: region.size, reverse=True)[:SAMPLES]
    # concurrently, because each sample may be a request
    for sample in await asyncio.gather(*map(_middle, largest)):
        found.update(sample)
    return found.hexdigest()


async def _middle(region: Region) -> bytes:
    length = min(SAMPLE_BYTES, region.size)
    return await region.read((region.size - length) // 2, length)


def _weights(graph: Graph) -> list[Region]:
    state = Dataflow.of(graph).state
    return [t.constant.region for t in constant_transfers(graph) if t.target.id not in state]
