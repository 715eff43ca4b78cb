"""WebGPU's validation rules for device records: the simulated device is as strict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webpte.engine.gpu.device import (
    UNIFORM_ALIGNMENT,
    UNIFORM_BYTES,
    DispatchCommand,
    GpuCopy,
    PipelineSpec,
    PlanCommands,
    Resource,
)
from webpte.engine.gpu.simulated.emulation import Memory, RecordedBuffer
from webpte.engine.ops.core.records import MAX_WORKGROUPS
from webpte.errors import DeviceError

WORD_BYTES = 4


def check_words(nbytes: int, what: str) -> None:
    if nbytes < 0 or nbytes % WORD_BYTES:
        raise DeviceError(f"{what}: {nbytes} bytes are not a multiple of 4")


def check_range(buffer: RecordedBuffer, offset: int, nbytes: int, what: str) -> None:
    check_words(offset, what)
    check_words(nbytes, what)
    if offset + nbytes > buffer.size:
        raise DeviceError(
            f"{what}: bytes {offset} to {offset + nbytes} of a buffer of {buffer.size}"
        )


def find_buffer(memory: Memory, number: int, what: str) -> RecordedBuffer:
    if number not in memory:
        raise DeviceError(f"{what}: buffer {number} does not exist, or was destroyed")
    return memory[number]


def check_copies(memory: Memory, copies: Sequence[GpuCopy], what: str) -> None:
    for copy in copies:
        source = find_buffer(memory, copy.source, what)
        target = find_buffer(memory, copy.target, what)
        if source is target:
            raise DeviceError(f"{what}: buffer {copy.source} is copied to itself")
        if source.destroyed or target.destroyed:
            raise DeviceError(f"{what}: buffer {copy.source} was destroyed by its owner")
        check_range(source, copy.source_offset, copy.nbytes, f"{what} from buffer {copy.source}")
        check_range(target, copy.target_offset, copy.nbytes, f"{what} to buffer {copy.target}")


def check_plan(
    memory: Memory, pipelines: Mapping[int, PipelineSpec], commands: PlanCommands
) -> None:
    """Check everything about a plan that is known before it runs."""
    for upload in commands.uploads:
        check_range(find_buffer(memory, upload.buffer, "an upload"), 0, upload.nbytes, "an upload")
    for buffer in commands.clears:
        find_buffer(memory, buffer, "a clear")
    for dispatch in commands.dispatches:
        if dispatch.pipeline not in pipelines:
            raise DeviceError(f"a dispatch uses pipeline {dispatch.pipeline}, which does not exist")
        _check_dispatch(memory, pipelines[dispatch.pipeline], dispatch)
    check_words(commands.result_bytes, "the results")
    for back in commands.readbacks:
        source = find_buffer(memory, back.buffer, "a read-back")
        check_range(source, 0, back.nbytes, "a read-back")
        check_words(back.result_offset, "a read-back")
        if back.result_offset + back.nbytes > commands.result_bytes:
            raise DeviceError(f"a read-back writes beyond {commands.result_bytes} bytes of results")


def _check_dispatch(memory: Memory, spec: PipelineSpec, dispatch: DispatchCommand) -> None:
    if dispatch.origin is None:
        raise DeviceError(f"{spec.label}: a dispatch without a call")
    if len(dispatch.resources) != len(spec.bindings):
        raise DeviceError(
            f"{spec.label}: {len(dispatch.resources)} bindings, not {len(spec.bindings)}"
        )
    if not all(0 <= size <= MAX_WORKGROUPS for size in dispatch.grid):
        raise DeviceError(f"{spec.label}: a grid of {dispatch.grid}")
    for use, resource in zip(spec.bindings, dispatch.resources, strict=True):
        _check_binding(memory, spec.label, use, resource)
    _check_aliasing(spec, dispatch)


def _check_binding(memory: Memory, label: str, use: str, resource: Resource) -> None:
    what = f"{label}: a binding to {use}"
    buffer = find_buffer(memory, resource.buffer, what)
    check_range(buffer, resource.offset, resource.nbytes, what)
    if resource.nbytes == 0 or resource.offset % UNIFORM_ALIGNMENT:
        raise DeviceError(f"{what}: {resource.nbytes} bytes at {resource.offset}")
    both = buffer.use == "constant" and buffer.size <= UNIFORM_BYTES
    if not (both or (buffer.use == "uniform") == (use == "uniform")):
        raise DeviceError(f"{what}: buffer {resource.buffer} was created for another usage")
    if use == "uniform" and resource.nbytes > UNIFORM_BYTES:
        raise DeviceError(f"{what}: {resource.nbytes} bytes are over {UNIFORM_BYTES}")


def _check_aliasing(spec: PipelineSpec, dispatch: DispatchCommand) -> None:
    """Raise DeviceError if a dispatch binds a buffer that it writes to a second time."""
    bound = list(zip(spec.bindings, dispatch.resources, strict=True))
    written = [resource.buffer for use, resource in bound if use == "write"]
    read = {resource.buffer for use, resource in bound if use != "write"}
    for buffer in written:
        if buffer in read:
            raise DeviceError(f"{spec.label}: buffer {buffer} is read and written")
        if written.count(buffer) > 1:
            raise DeviceError(f"{spec.label}: buffer {buffer} is written by two bindings")


def buffers_of(commands: PlanCommands) -> frozenset[int]:
    """Return all buffers that an execution uses."""
    used = {upload.buffer for upload in commands.uploads} | set(commands.clears)
    used |= {back.buffer for back in commands.readbacks}
    for dispatch in commands.dispatches:
        used |= {resource.buffer for resource in dispatch.resources}
        if dispatch.origin is not None:
            used |= {resource.buffer for resource in dispatch.origin.tensors.values()}
            used |= {resource.buffer for resource in dispatch.origin.symints.values()}
    return frozenset(used)
