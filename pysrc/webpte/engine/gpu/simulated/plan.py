"""A plan of the simulated device: checks before a run, and its effects on memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import groupby

from webpte.engine.gpu.device import GpuCopy, PlanCommands
from webpte.engine.gpu.simulated.emulation import EmulatedCall, Memory
from webpte.engine.gpu.simulated.validation import buffers_of, check_copies, find_buffer
from webpte.errors import DeviceError


def copy_all(memory: Memory, copies: Sequence[GpuCopy]) -> None:
    for copy in copies:
        memory[copy.target].copy_from(
            memory[copy.source], copy.nbytes, copy.source_offset, copy.target_offset
        )


class SimulatedPlan:
    """Commands with the plans of their parts, which may be destroyed afterwards."""

    def __init__(
        self, number: int, commands: PlanCommands, plans: Mapping[int, SimulatedPlan]
    ) -> None:
        for part in commands.parts:
            if part.plan not in plans:
                raise DeviceError(f"a part refers to plan {part.plan}, which does not exist")
        self.number = number
        self.commands = commands
        self._parts = [(part, plans[part.plan]) for part in commands.parts]

    @cached_property
    def _used(self) -> frozenset[int]:
        used = set(buffers_of(self.commands))
        for part, plan in self._parts:
            used |= plan._used
            for copy in (*part.copies, *part.copies_after):
                used |= {copy.source, copy.target}
        return frozenset(used)

    @cached_property
    def _calls(self) -> list[tuple[int, EmulatedCall]]:
        """The calls in order, each with the number of its first dispatch."""
        found, at = [], 0
        for origin, dispatches in groupby(d.origin for d in self.commands.dispatches):
            if origin:
                found.append((at, EmulatedCall(origin)))
            at += len(list(dispatches))
        return found

    def check_parts(self, memory: Memory) -> None:
        """Check the copies of all parts."""
        for part, _ in self._parts:
            check_copies(memory, (*part.copies, *part.copies_after), "a copy of a part")

    def check_runnable(self, memory: Memory, payload: bytes) -> None:
        for buffer in self._used:
            find_buffer(memory, buffer, f"running plan {self.number}")
        for upload in self.commands.uploads:
            if upload.payload_offset + upload.nbytes > len(payload):
                raise DeviceError(f"an upload reads beyond a payload of {len(payload)} bytes")

    def upload(self, memory: Memory, payload: bytes) -> None:
        for upload in self.commands.uploads:
            end = upload.payload_offset + upload.nbytes
            memory[upload.buffer].write(payload[upload.payload_offset : end])

    def replay(
        self,
        memory: Memory,
        copies: Sequence[GpuCopy] = (),
        copies_after: Sequence[GpuCopy] = (),
        dispatches: tuple[int, int] | None = None,
    ) -> None:
        count = len(self.commands.dispatches)
        first, end = dispatches or (0, count)
        if first == 0:
            for buffer in self.commands.clears:
                memory[buffer].clear()
            copy_all(memory, copies)
            for part, plan in self._parts:
                plan.replay(memory, part.copies, part.copies_after)
        for at, call in self._calls:
            if first <= at < end:
                call.run(memory)
        if end == count:
            copy_all(memory, copies_after)

    def results(self, memory: Memory) -> bytes:
        results = bytearray(self.commands.result_bytes)
        for back in self.commands.readbacks:
            data = memory[back.buffer].read(back.nbytes)
            results[back.result_offset : back.result_offset + back.nbytes] = data
        return bytes(results)
