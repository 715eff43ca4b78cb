"""One method of a program: checks its inputs, runs its instructions, hands out its outputs.

Values are arrays, numbers, or tensors that stayed on the GPU because only delegates read them.
Arrays are in logical order whatever a tensor's dim order, which matters only where bytes are read.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from webpte.dtypes import DTYPES, as_declared
from webpte.errors import ExecutionError, InputError
from webpte.format.program import (
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
)
from webpte.gpu.device import Device
from webpte.ops.core.target import TunedConfigs
from webpte.portable import lookup_kernel
from webpte.runtime.base.error_location import naming
from webpte.runtime.base.gpu_tensor import DeviceTensor, GpuTensor, upload
from webpte.runtime.base.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.runtime.execute.delegate import GpuDelegate
from webpte.runtime.execute.inputs import check_inputs
from webpte.runtime.execute.io_binding import OutputPlacement
from webpte.runtime.execute.numpy_delegate import NumpyDelegate
from webpte.runtime.execute.timings import Timings, timed
from webpte.runtime.inspect.dry_run import DryRun, Probe
from webpte.runtime.load.kernel_calls import host_value, run_kernel
from webpte.runtime.load.program_file import MethodContents
from webpte.runtime.load.state import State
from webpte.runtime.load.values import Values, host_values, with_sources
from webpte.runtime.load.writes import Writes, targets

# Instructions per call: a loop that never ends must not hang the page.
MAX_INSTRUCTIONS = 1_000_000


class Delegate(Protocol):
    """What GpuDelegate and NumpyDelegate have in common."""

    @property
    def input_count(self) -> int: ...

    @property
    def has_state(self) -> bool: ...

    async def save_state(self) -> Callable[[], None]:
        """Returns what puts the state back as it is now; for callers that run alone."""

    async def execute(self, inputs: Sequence[Any]) -> list[Any]: ...


@dataclass(frozen=True)
class _MethodCall:
    """One call of a method, or a rehearsal: that may have the rest."""

    values: Values
    on_gpu: bool
    is_rehearsal: bool
    timings: Timings | None
    probe: Probe | None
    trial: TunedConfigs | None


class Method:
    """Runs one execution plan over its delegates and kernels; `device` is None without a GPU."""

    def __init__(
        self,
        contents: MethodContents,
        delegates: Sequence[Delegate],
        state: State,
        device: Device | None,
        lock: asyncio.Lock,
    ) -> None:
        self.info: MethodInfo = contents.info
        self._plan: ExecutionPlan = contents.plan
        self._steps = contents.steps
        self.folded = contents.folded
        self._delegates = delegates
        self._state = state
        self._device = device
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
        # State, and tensors that delegates lend, change with the next call: one call at a time.
        # A method that is one delegate alone leaves that to the delegate.
        alone = not self._is_long and not any(cell.mutable for cell in state.values())
        self._lock: asyncio.Lock | nullcontext[None] = nullcontext() if alone else lock
        self._last_inputs: list[Any] | None = None
        self.kernel_ms: dict[str, float] = {}
        # The delegate that is the whole method, if there is one: its outputs are the method's.
        self._only_call = self._find_only_call()
        only = self._only_call
        self.only_delegate = None if only is None else delegates[only.delegate_index]
        plain = all(isinstance(i, TensorInfo) or i.kind == "int" for i in self.info.inputs)
        plain &= all(isinstance(output, TensorInfo) for output in self.info.outputs)
        self._is_direct = isinstance(self.only_delegate, GpuDelegate) and alone and plain
        self._dtypes = [
            DTYPES[o.dtype].numpy for o in self.info.outputs if isinstance(o, TensorInfo)
        ]

    def _find_only_call(self) -> DelegateCall | None:
        calls = [i for i in self._instructions if not isinstance(i, FreeCall)]
        if len(calls) != 1 or not isinstance(calls[0], DelegateCall):
            return None
        whole = calls[0].args == (*self._plan.inputs, *self._plan.outputs)
        taken = self._delegates[calls[0].delegate_index].input_count
        return calls[0] if whole and taken == len(self._plan.inputs) else None

    def take_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Inputs of a call, checked, and remembered for a later profile."""
        given = check_inputs(self.info, inputs, self._device)
        self._last_inputs = [
            weakref.ref(value) if isinstance(value, GpuTensor) else value for value in inputs
        ]
        return given

    async def run(self, inputs: Sequence[Any], on_gpu: bool = False) -> tuple[Any, ...]:
        """Arrays and numbers, or with `on_gpu` tensors that stay there instead of arrays."""
        given = self.take_inputs(inputs)
        if self._is_direct and not on_gpu:
            return await self._run_directly(given)
        return await self._run(given, on_gpu, None)

    async def _run_directly(self, given: Sequence[Any]) -> tuple[np.ndarray, ...]:
        """What `_run` does for a method that is one delegate, without a look at each value."""
        assert self._only_call is not None
        assert self.only_delegate is not None
        try:
            results = await self.only_delegate.execute(given)
        except Exception:
            with self._naming(self._only_call):
                raise
        return tuple(map(as_declared, results, self._dtypes))

    async def run_dry(self, inputs: Sequence[Any], dry_run: DryRun) -> tuple[Any, ...]:
        """Run once, and leave all as it was; without inputs, on those of the last call."""
        if not inputs and self.info.inputs:
            inputs = self.earlier_inputs()
        given = check_inputs(self.info, inputs, self._device)
        return await self._run(given, False, dry_run)

    def earlier_inputs(self) -> list[Any]:
        """Of the last call."""
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

    async def _run(
        self, given: Sequence[Any], on_gpu: bool, dry_run: DryRun | None
    ) -> tuple[Any, ...]:
        outputs: tuple[Any, ...] = ()
        async with self._lock, self._state_guard(dry_run=dry_run is not None):
            read = [
                await value.numpy()
                if isinstance(value, GpuTensor)
                and self._fate(index, on_gpu) is OutputPlacement.READ
                else value
                for index, value in zip(self._plan.inputs, given, strict=True)
            ]
            values, more = Values(self._plan, self._state), dry_run or DryRun()
            run = _MethodCall(values, on_gpu, dry_run is not None, *more)
            try:
                for index, value in zip(self._plan.inputs, read, strict=True):
                    run.values.store(index, value)
                for chain in self._plan.chains:
                    await self._run_chain(chain, run)
                outputs = tuple(
                    self._finish(info, run.values, index)
                    for info, index in zip(self.info.outputs, self._plan.outputs, strict=True)
                )
                if on_gpu:
                    outputs = await self._move_to_gpu(outputs, given)
                if dry_run is None:
                    run.values.keep_state()
            except BaseException:
                outputs = ()
                raise
            finally:
                run.values.destroy_all_but(outputs)
        return outputs

    @asynccontextmanager
    async def _state_guard(self, dry_run: bool) -> AsyncIterator[None]:
        """What delegates have written to their state is taken back if a later step fails."""
        # A GPU's delegate that is alone does this itself, and lets no other call come between.
        saves = self._is_long or (dry_run and self._device is None)
        stateful = [d for d in self._delegates if d.has_state] if saves else []
        restores = [await delegate.save_state() for delegate in stateful]
        try:
            yield
        except BaseException:
            dry_run = True
            raise
        finally:
            for restore in restores if dry_run else ():
                restore()

    def _fate(self, index: int, on_gpu: bool, lendable: bool = False) -> OutputPlacement:
        """What a value on the GPU is needed as."""
        if index in self._on_host or (index in self._returned and not on_gpu):
            return OutputPlacement.READ
        return (
            OutputPlacement.LEND
            if lendable and index not in self._returned
            else OutputPlacement.KEEP
        )

    async def _run_chain(self, chain: Sequence[Instruction], run: _MethodCall) -> None:
        position = 0
        for _ in range(MAX_INSTRUCTIONS):
            if position >= len(chain):
                return
            instruction = chain[position]
            position += 1
            with self._naming(instruction):
                if isinstance(instruction, JumpFalseCall):
                    if not self._condition(instruction, run.values):
                        position = instruction.destination
                else:
                    await self._run_instruction(instruction, run)
        raise ExecutionError(
            f"method {self.info.name!r}: {MAX_INSTRUCTIONS} instructions without an end"
        )

    def _naming(self, instruction: Instruction) -> AbstractContextManager[None]:
        """What goes wrong in here says which step it was."""

        def place(message: str) -> str:
            step = self._failed_step(instruction, message)
            return f"method {self.info.name!r}, {step}: {message.removeprefix(f'{step}: ')}"

        return naming(place)

    def _failed_step(self, instruction: Instruction, message: str) -> str:
        """Kernels say their name, and so do the ops of delegates that have become one."""
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

    async def _run_instruction(self, instruction: Instruction, run: _MethodCall) -> None:
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

    async def _call_delegate(self, call: DelegateCall, run: _MethodCall) -> None:
        delegate = self._delegates[call.delegate_index]
        taken = delegate.input_count  # args: the delegate's inputs, then its outputs
        inputs = [self._delegate_value(run.values, index) for index in call.args[:taken]]
        outputs = call.args[taken:]
        results: Iterable[Any]
        if run.probe is not None:
            place = self._places[id(call)]
            results = await run.probe.run(delegate, inputs, place, alone=not self._is_long)
        elif isinstance(delegate, GpuDelegate):
            # What a delegate lends is gone with its next call, which may be in this very method.
            once = self._calls[call.delegate_index] == 1
            fates = [self._fate(index, run.on_gpu, lendable=once) for index in outputs]
            results = await delegate.execute_mixed(
                inputs,
                fates,
                timings=run.timings,
                dry_run=run.is_rehearsal,
                guarded=self._is_long,
                trial=run.trial,
            )
            run.values.made(results)
        else:
            assert isinstance(delegate, NumpyDelegate)
            results = await delegate.execute(inputs, timed(run.timings))
        for index, result in zip(outputs, results, strict=True):
            run.values.store(index, result)

    def _delegate_value(self, values: Values, index: int) -> Any:
        value = values[index]
        if not isinstance(value, np.ndarray | DeviceTensor | GpuTensor | int):
            kind = type(value).__name__
            raise ExecutionError(f"value {index} is a {kind}; delegates take tensors and ints")
        return value

    def _call_kernel(self, call: KernelCall, run: _MethodCall) -> None:
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
            run.probe.note_kernel(name, given, made, self._places[id(call)])

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
        with np.errstate(all="ignore"):
            return np.array(value, dtype=DTYPES[info.dtype].numpy)  # a copy: state stays ours

    async def _move_to_gpu(self, outputs: Sequence[Any], given: Sequence[Any]) -> tuple[Any, ...]:
        """Every tensor in GPU memory that it shares with no input and no other output."""
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
            if not any(value.shares_memory(other) for other in taken):
                return value.declared(dtype)
            value = await value.numpy()
        try:
            return await upload(self._device, value, dtype, info.name)
        except OverflowError as error:
            raise ExecutionError(
                f"method {self.info.name!r}: {error}, so it cannot stay on the GPU; "
                "take the outputs as arrays"
            ) from error
