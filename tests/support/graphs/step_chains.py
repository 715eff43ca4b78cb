"""The longest chain of dependent dispatches of a plan."""

from __future__ import annotations

from collections.abc import Mapping

from webpte.engine.gpu.device import PipelineSpec, PlanCommands


def longest_chain(commands: PlanCommands, pipelines: Mapping[PipelineSpec, int]) -> int:
    """Return the length of the longest chain of dispatches that wait for each other.

    A dispatch waits for the writers of its buffers, and for the readers of buffers that it writes.
    """
    access = {number: spec.bindings for spec, number in pipelines.items()}
    written: dict[int, int] = {}  # buffer to the depth of its last writer
    read: dict[int, int] = {}  # buffer to the depth of its deepest reader since then
    longest = 0
    for dispatch in commands.dispatches:
        bound = list(zip(dispatch.resources, access[dispatch.pipeline], strict=True))
        writes = {resource.buffer for resource, kind in bound if kind == "write"}
        touches = {resource.buffer for resource, kind in bound if kind != "uniform"}
        before = [written.get(i, 0) for i in touches] + [read.get(i, 0) for i in writes]
        depth = 1 + max(before, default=0)
        for buffer in touches:
            if buffer in writes:
                written[buffer], read[buffer] = depth, 0
            else:
                read[buffer] = max(read.get(buffer, 0), depth)
        longest = max(longest, depth)
    return longest
