"""Recognizes operators that a file writes out as several calls, once a method is a graph."""

from __future__ import annotations

from dataclasses import replace

from webpte.engine.graph.graph import Graph
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.recognize_attention import AttentionRecognizer, has_attention
from webpte.engine.load.recognize_norms import NormRecognizer, has_norms
from webpte.engine.load.recognize_rotary import RotaryRecognizer, has_rotations
from webpte.engine.load.recognize_rotary_half import HalfRotaryRecognizer, has_half_rotations
from webpte.engine.load.recognizer import read_scalars

# Recognizers, each with the question whether a graph has anything for it.
RECOGNIZERS = (
    (has_norms, NormRecognizer),
    (has_rotations, RotaryRecognizer),
    (has_half_rotations, HalfRotaryRecognizer),
    (has_attention, AttentionRecognizer),
)


async def recognize(method: MethodContents) -> MethodContents:
    """Return a method whose graphs have the operators that their files write out."""
    graphs = [None if graph is None else await _recognized(graph) for graph in method.graphs]
    return replace(method, graphs=tuple(graphs))


async def _recognized(graph: Graph) -> Graph:
    for has_any, recognizer in RECOGNIZERS:
        if has_any(graph):
            graph = recognizer(graph, await read_scalars(graph)).run()
    return graph
