"""One method of a program: checks its inputs, runs its instructions, returns its outputs.

Values are arrays, numbers, or tensors that stayed on the GPU because only delegates read them.
Arrays are always in logical order; a tensor's dim order matters only where bytes are read.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.call.call import CallPlace, Lifetime
from webpte.engine.call.gpu_tensor import DeviceTensor, GpuTensor, share_memory, upload, with_dtype
from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.dtypes import DTYPES, DType
from webpte.engine.format.program import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
)
from webpte.engine.gpu.device import Device
from webpte.engine.load.kernel_calls import host_value, run_kernel
from webpte.engine.load.program_file import MethodContents
from webpte.engine.load.state import State
from webpte.engine.load.values import Values, host_values, with_sources
from webpte.engine.load.writes import Writes, targets
from webpte.engine.portable import lookup_kernel
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.io import OutputPlacement, check_inputs
from webpte.engine.run.request import Delegate, DryRun, Probe, RunRequest
from webpte.engine.run.timings import Timings
from webpte.errors import ExecutionError, InputError

# Instructions per call: an endless loop must not hang the page.
MAX_INSTRUCTIONS = 1_000_000


@dataclass(frozen=True)
class _MethodRun:
    """A run of a method's instructions, with the values computed so far."""

    request: RunRequest
    values: Values

    @property
    def on_gpu(self) -> bool:
        """Whether the method's outputs stay on the GPU."""
        return self.request.outputs is OutputPlacement.OWNED

    @property
    def timings(self) -> Timings | None:
        return self.request.timings

    @property
    def probe(self) -> Probe | None:
        return None if self.request.dry_run is None else self.request.dry_run.probe


class Method:
    """Runner of an execution plan with delegates and kernels; `device` is None without a GPU."""

    def __init__(
        self,
        contents: MethodContents,
        delegates: Sequence[Delegate],
        state: State,
        device: Device | None,
        lock: asyncio.Lock,
        lifetime: Lifetime,
    ) -> None:
        self.info: MethodInfo = contents.info
        self._plan: ExecutionPlan = contents.plan
        self._steps = contents.steps
        self.folded = contents.folded
        self._delegates = delegates
        self._state = state
        self._device = device
        self._lifetime = lifetime
        self._instructions = self._plan.instructions
        writes = Writes(contents)
        self._on_host = host_values(self._plan, state, writes)
        self._returned = with_sources(self._plan, self._plan.outputs, writes)
        self._calls = Counter(
            i.delegate_index for i in self._instructions if isinstance(i, DelegateCall)
        )
        self.kernels = Counter(
            self._describe(i) for i in self._instructions if isinstance(i, KernelCall)
        )
        self._places = {id(i): place for place, i in enumerate(self._instructions)}
        self._is_long = sum(not isinstance(i, FreeCall) for i in self._instructions) > 1
        # State and borrowed tensors change with the next call, so calls run one at a time.
        # A method that is a single delegate leaves the locking to the delegate.
        alone = not self._is_long and not any(cell.mutable for cell in state.values())
        self.turn: asyncio.Lock | nullcontext[None] = nullcontext() if alone else lock
        self._last_inputs: list[Any] | None = None
        self.kernel_ms: dict[str, float] = {}
        # The delegate, if it is the whole method: its outputs are the method's.
        self._only_call = self._find_only_call()
        only = self._only_call
        self.only_delegate = None if only is None else delegates[only.delegate_index]
        plain = all(isinstance(i, TensorInfo) or i.kind == "int" for i in self.info.inputs)
        plain &= all(isinstance(output, TensorInfo) for output in self.info.outputs)
        self._is_direct = isinstance(self.only_delegate, GpuDelegate) and alone and plain
        self._dtypes = [DTYPES[o.dtype] for o in self.info.outputs if isinstance(o, TensorInfo)]

    def _find_only_call(self) -> DelegateCall | None:
        calls = [i for i in self._instructions if not isinstance(i, FreeCall)]
        if len(calls) != 1 or not isinstance(calls[0], DelegateCall):
            return None
        whole = calls[0].args == (*self._plan.inputs, *self._plan.outputs)
        taken = self._delegates[calls[0].delegate_index].input_count
        return calls[0] if whole and taken == len(self._plan.inputs) else None

    def request(
        self,
        inputs: Sequence[Any],
        outputs: OutputPlacement = OutputPlacement.HOST,
        dry_run: DryRun | None = None,
    ) -> RunRequest:
        """Check inputs and build a request; a dry run without inputs uses the last call's.

        Outputs are placed as HOST or OWNED. BORROWED is for runs whose only purpose is their effect
        on state: such a run reads no outputs back if it can do without.
        """
        if dry_run is None:
            return RunRequest(self.take_inputs(inputs), outputs)
        if not inputs and self.info.inputs:
            inputs = self.earlier_inputs()
        return RunRequest(check_inputs(self.info, inputs, self._device), outputs, dry_run)

    def take_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Check the inputs of a call, and remember them for a later dry run."""
        given = check_inputs(self.info, inputs, self._device)
        self._last_inputs = [
            weakref.ref(value) if isinstance(value, GpuTensor) else value for value in inputs
        ]
        return given

    async def run(self, request: RunRequest) -> tuple[Any, ...]:
        """Run once; returns an array, a GPU tensor or a number per output."""
        is_plain = request.dry_run is None and request.outputs is not OutputPlacement.OWNED
        if is_plain and self._is_direct:
            return await self._run_only_delegate(request)
        with self._lifetime.lease():
            return await self._run_instructions(request)

    async def _run_only_delegate(self, request: RunRequest) -> tuple[Any, ...]:
        """Run a method that is a single delegate, whose outputs are the method's."""
        assert self._only_call is not None
        assert self.only_delegate is not None
        try:
            results = await self.only_delegate.run(request)
        except Exception:
            with self._located(self._only_call):
                raise
        if request.outputs is not OutputPlacement.HOST:
            return ()
        return tuple(map(DType.cast, self._dtypes, results))

    def earlier_inputs(self) -> list[Any]:
        """Return the inputs of the last call."""
        if self._last_inputs is None:
            raise InputError(
                f"method {self.info.name!r} has not run yet; give its inputs, as to `run`"
            )
        inputs = [i() if isinstance(i, weakref.ref) else i for i in self._last_inputs]
        if any(value is None for value in inputs):
            raise InputError(
                f"method {self.info.name!r}: a GPU tensor of the last call is gone; give the inputs"
            )
        return inputs

    async def _run_instructions(self, request: RunRequest) -> tuple[Any, ...]:
        outputs: tuple[Any, ...] = ()
        async with self.turn, self._state_guard(is_dry=request.dry_run is not None):
            run = _MethodRun(request, Values(self._plan, self._state))
            read = [
                await value.numpy()
                if isinstance(value, GpuTensor)
                and self._placement(index, run.on_gpu) is OutputPlacement.HOST
                else value
                for index, value in zip(self._plan.inputs, request.inputs, strict=True)
            ]
            try:
                for index, value in zip(self._plan.inputs, read, strict=True):
                    run.values.store(index, value)
                for chain in self._plan.chains:
                    await self._run_chain(chain, run)
                outputs = tuple(
                    self._finish(info, run.values, index)
                    for info, index in zip(self.info.outputs, self._plan.outputs, strict=True)
                )
                if run.on_gpu:
                    outputs = await self._move_to_gpu(outputs, request.inputs)
                if request.dry_run is None:
                    run.values.keep_state()
            except BaseException:
                outputs = ()
                raise
            finally:
                run.values.destroy_all_but(outputs)
        return outputs

    @asynccontextmanager
    async def _state_guard(self, is_dry: bool) -> AsyncIterator[None]:
        """Restore the state of delegates after a dry run, and if a later step fails."""
        # The delegate of a method without other steps does this itself, under its own lock.
        saves = self._is_long or (is_dry and self._device is None)
        stateful = [d for d in self._delegates if d.has_state] if saves else []
        restores = [await delegate.save_state() for delegate in stateful]
        try:
            yield
        except BaseException:
            is_dry = True
            raise
        finally:
            for restore in restores if is_dry else ():
                restore()

    def _placement(self, index: int, on_gpu: bool, lendable: bool = False) -> OutputPlacement:
        """Return the placement of a value that a delegate computes."""
        if index in self._on_host or (index in self._returned and not on_gpu):
            return OutputPlacement.HOST
        if lendable and index not in self._returned:
            return OutputPlacement.BORROWED
        return OutputPlacement.OWNED

    async def _run_chain(self, chain: Sequence[Instruction], run: _MethodRun) -> None:
        position = 0
        for _ in range(MAX_INSTRUCTIONS):
            if position >= len(chain):
                return
            instruction = chain[position]
            position += 1
            with self._located(instruction):
                if isinstance(instruction, JumpFalseCall):
                    if not self._condition(instruction, run.values):
                        position = instruction.destination
                else:
                    await self._run_instruction(instruction, run)
        raise ExecutionError(
            f"method {self.info.name!r}: {MAX_INSTRUCTIONS} instructions without an end"
        )

    def _located(self, instruction: Instruction) -> CallPlace:
        """Name the method and the step in errors that are raised inside the block."""

        def place(message: str) -> str:
            step = self._failed_step(instruction, message)
            return f"method {self.info.name!r}, {step}: {message.removeprefix(f'{step}: ')}"

        return CallPlace(place)

    def _failed_step(self, instruction: Instruction, message: str) -> str:
        """Return the name of the step that failed; a stitched delegate's error begins with it."""
        if isinstance(instruction, DelegateCall):
            for step in self._steps(instruction.delegate_index):
                if message.startswith(f"{step}: "):
                    return step
        return self._describe(instruction)

    def _describe(self, instruction: Instruction) -> str:
        if isinstance(instruction, DelegateCall):
            steps = self._steps(instruction.delegate_index)
            return " + ".join(steps) if len(steps) < 4 else f"{steps[0]} to {steps[-1]}"
        if isinstance(instruction, KernelCall):
            return self._plan.operators[instruction.op_index].full_name
        return type(instruction).__name__

    async def _run_instruction(self, instruction: Instruction, run: _MethodRun) -> None:
        if run.timings is not None:
            run.timings.place = self._places[id(instruction)]
        if isinstance(instruction, DelegateCall):
            await self._call_delegate(instruction, run)
        elif isinstance(instruction, KernelCall):
            self._call_kernel(instruction, run)
        elif isinstance(instruction, MoveCall):
            run.values.store(instruction.move_to, run.values[instruction.move_from])
        elif isinstance(instruction, FreeCall):
            run.values.free(instruction.value_index)

    def _condition(self, jump: JumpFalseCall, values: Values) -> bool:
        value = host_value(values.__getitem__, jump.cond_value_index)
        if isinstance(value, np.ndarray) and value.size == 1:
            return bool(value.reshape(-1)[0])
        if isinstance(value, bool):
            return value
        raise ExecutionError("the condition of a jump is neither a bool nor one element")

    async def _call_delegate(self, call: DelegateCall, run: _MethodRun) -> None:
        delegate = self._delegates[call.delegate_index]
        taken = delegate.input_count  # args: the delegate's inputs, then its outputs
        inputs = [self._delegate_value(run.values, index) for index in call.args[:taken]]
        outputs = call.args[taken:]
        if run.probe is not None:
            place = self._places[id(call)]
            results = await run.probe.run(delegate, inputs, place, alone=not self._is_long)
        else:
            # Borrowed outputs end with the delegate's next run, which may be in this same method.
            once = self._calls[call.delegate_index] == 1
            placements = [self._placement(index, run.on_gpu, lendable=once) for index in outputs]
            request = RunRequest(inputs, placements, run.request.dry_run, self._is_long)
            results = await delegate.run(request)
            run.values.made(results)
        for index, result in zip(outputs, results, strict=True):
            run.values.store(index, result)

    def _delegate_value(self, values: Values, index: int) -> Any:
        value = values[index]
        if not isinstance(value, np.ndarray | DeviceTensor | GpuTensor | int):
            kind = type(value).__name__
            raise ExecutionError(f"value {index} is a {kind}; delegates take tensors and ints")
        return value

    def _call_kernel(self, call: KernelCall, run: _MethodRun) -> None:
        name = self._plan.operators[call.op_index].full_name
        kernel = lookup_kernel(name)
        assert kernel is not None, "unsupported kernels are refused at load"
        started, values = perf_counter(), run.values
        given = values.known(call.args[: kernel.arguments]) if run.probe else []
        unwritten = kernel.in_place and not values.is_written(call.args[0])
        read = values.__getitem__
        for index, result in run_kernel(self._plan, kernel, call, read, unwritten=unwritten):
            values.store(index, result)
        spent = (perf_counter() - started) * 1000
        self.kernel_ms[name] = self.kernel_ms.get(name, 0.0) + spent
        if run.timings is not None:
            run.timings.host(name, started)
        if run.probe is not None:
            made = values.known(targets(self._plan, kernel, call))
            run.probe.record_kernel(name, given, made, self._places[id(call)])

    # Outputs

    def _finish(self, info: TensorInfo | ScalarInfo, values: Values, index: int) -> Any:
        try:
            value = values[index]
        except ExecutionError as error:
            raise ExecutionError(
                f"method {self.info.name!r}: nothing computed {info.name}"
            ) from error
        if isinstance(info, ScalarInfo) or isinstance(value, GpuTensor):
            return value
        if not isinstance(value, np.ndarray | np.generic):
            raise ExecutionError(
                f"method {self.info.name!r}: {info.name} is a {type(value).__name__}, not a tensor"
            )
        # a copy, so that callers cannot write to the state
        return np.array(DTYPES[info.dtype].cast(np.asarray(value)))

    async def _move_to_gpu(self, outputs: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """Move outputs to GPU memory that no input and no other output shares."""
        theirs = [value for value in given if isinstance(value, GpuTensor)]
        ours: list[GpuTensor] = []
        moved = []
        try:
            for info, value in zip(self.info.outputs, outputs, strict=True):
                if isinstance(info, TensorInfo):
                    ours.append(await self._gpu_output(info, value, [*theirs, *ours]))
                moved.append(ours[-1] if isinstance(info, TensorInfo) else value)
        except BaseException:
            for tensor in ours:
                tensor.destroy()
            raise
        return tuple(moved)

    async def _gpu_output(
        self, info: TensorInfo, value: Any, taken: Iterable[GpuTensor]
    ) -> GpuTensor:
        assert self._device is not None
        dtype = DTYPES[info.dtype]
        if isinstance(value, GpuTensor):
            if not any(share_memory(value, other) for other in taken):
                return with_dtype(value, dtype)
            value = await value.numpy()
        try:
            return await upload(self._device, value, dtype, info.name)
        except OverflowError as error:
            raise ExecutionError(
                f"method {self.info.name!r}: {error}, so it cannot stay on the GPU; "
                "take the outputs as arrays"
            ) from error
