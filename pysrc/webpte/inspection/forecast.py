"""Forecasts the GPU memory of a program from its head: no weights are read, nothing is allocated.

Graphs are rewritten and lowered as in loading, at the largest shapes. Calls that a load would move
from the host to the GPU, or fold into constants, are not taken into account, so a program of
several delegates can need somewhat more or less.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from webpte.engine.call.options import Options, applied_to
from webpte.engine.files.source import ByteSource
from webpte.engine.format.program import TensorMeta
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.devices import SHARED, kind_of, shared_device
from webpte.engine.graph.graph import Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.load.join_programs import read_programs
from webpte.engine.load.program_file import Contents, Prepare
from webpte.engine.load.state import count_zeros
from webpte.engine.ops.core.records import Scratch
from webpte.engine.plan.binding_limits import check_bindable, check_scratch
from webpte.engine.plan.memory_plan import aligned
from webpte.engine.plan.planner import Planner
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.prepared_graph import PreparedGraph, prepare_graph
from webpte.engine.run.shared_weights import ConstantKey, shareable
from webpte.errors import OutOfMemoryError, WebpteError
from webpte.hub.program_files import open_program_files
from webpte.inspection.report.forecast import MemoryForecast

# Bytes in the host's memory while weights are uploaded: ranges of 32 MB, three at a time, in a
# browser.
STAGING_BYTES = 96 << 20


async def forecast(
    source: Any,
    *,
    device: str | Device | DeviceInfo = "webgpu",
    data: Sequence[Any] = (),
    name: str | None = None,
    options: Options | None = None,
    budget: int | None = None,
    prepare: Prepare | None = None,
    optional: Collection[str] = (),
) -> MemoryForecast:
    """Return the GPU memory that a program will need, before its weights are fetched.

    source, data, name, options, prepare, optional   as for `load`
    device    the device to run on, by name, as a Device, or as the info of a device
    budget    the most bytes that it may take, for example `report.PHONE_BUDGET`
    """
    files = list[ByteSource]()
    named = await open_program_files(source, data, into=files)
    contents = await read_programs(files, optional, name or named)
    if prepare is not None:
        contents = prepare(contents)
    chosen = options or Options()
    info = applied_to(chosen, await _info_of(device))
    return forecast_contents(contents, info, chosen.fuse, budget)


async def _info_of(device: str | Device | DeviceInfo) -> DeviceInfo:
    if isinstance(device, DeviceInfo):
        return device
    if isinstance(device, str):
        shared = kind_of(device) in SHARED
        return (await shared_device(device)).info if shared else DeviceInfo(device)
    return device.info


def forecast_contents(
    contents: Contents, info: DeviceInfo, fused: bool, budget: int | None = None
) -> MemoryForecast:
    """Forecast the memory of a file that has been read."""
    counting = _MemoryTally(info, fused)
    for method in contents.methods.values():
        for graph in method.graphs:
            if graph is not None:
                counting.add(graph)
    weights = sum(key.nbytes for key in counting.weights) + _host_bytes(contents)
    return MemoryForecast(
        program=contents.source.name,
        weights=weights,
        state=counting.state + count_zeros(contents, info.has_f16),
        activations=counting.activations,
        scratch=counting.scratch,
        staging=min(weights, STAGING_BYTES),
        largest=counting.largest,
        limits=dict(info.limits),
        budget=budget,
        refusals=tuple(counting.refusals),
    )


def _host_bytes(contents: Contents) -> int:
    """Count the constants and buffers of kernels outside of delegates, each once."""
    found: dict[object, int] = {}
    for method in contents.methods.values():
        for value in method.plan.values:
            if isinstance(value, TensorMeta):
                file = method.file
                place = file.program.tensor_span(value) or value.extra
                if place is not None:
                    found[file.source, place] = value.nbytes
    return sum(found.values())


class _MemoryTally:
    """Bytes by kind over the graphs of a program; equal weights of several methods count once."""

    def __init__(self, info: DeviceInfo, fused: bool) -> None:
        self._info = info
        self._fused = fused
        self.weights: set[ConstantKey] = set()
        self.state = self.activations = self.scratch = self.largest = 0
        self.refusals: list[str] = []

    def add(self, graph: Graph) -> None:
        prepared = prepare_graph(graph, self._info, self._fused)
        storage, state = prepared.storage, Dataflow.of(prepared.graph).state
        try:
            check_bindable(prepared.graph, storage, self._info.binding_bytes)
        except OutOfMemoryError as error:
            self.refusals.append(str(error))
        keys = shareable(prepared.graph, prepared.transfers, storage)
        lasting = {storage.slot_of[i] for i in state if i in storage.slot_of}
        for slot in storage.slots:
            self.largest = max(self.largest, slot.nbytes)
            if slot.index in keys:
                self.weights.add(keys[slot.index])
            elif slot.index in lasting:
                self.state += slot.nbytes
            else:
                self.activations += slot.nbytes
        self._add_scratch(prepared)

    def _add_scratch(self, prepared: PreparedGraph) -> None:
        live = LiveState(prepared.graph)
        parts = (prepared.graph, live, prepared.ops, prepared.storage, self._info.target)
        planner = Planner(*parts)
        try:
            planner.lower_all()
        except WebpteError as error:
            self.refusals.append(str(error))
            return
        found: dict[tuple[str, int], int] = {}
        for dispatch in planner.dispatches():
            try:
                check_scratch(dispatch, self._info.binding_bytes)
            except OutOfMemoryError as error:
                self.refusals.append(str(error))
            for binding in dispatch.bindings:
                if isinstance(binding, Scratch):
                    nbytes = aligned(binding.nbytes)
                    found[binding.key, nbytes] = nbytes
        self.scratch += sum(found.values())
        self.largest = max([self.largest, *found.values()])
