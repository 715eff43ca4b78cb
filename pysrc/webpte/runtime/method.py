"""One method of a program: checks its inputs, runs its instructions, hands out its outputs.

Values are arrays, numbers, or tensors that stayed on the GPU because only delegates read them.
Arrays are in logical order whatever a tensor's dim order, which matters only where bytes are read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from webpte.dtypes import DTYPES, dtype_of_program
from webpte.errors import ExecutionError, InputError
from webpte.format.program import (
    BoolList,
    DelegateCall,
    DoubleList,
    Dynamism,
    ExecutionPlan,
    FreeCall,
    Instruction,
    IntListRef,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    TensorList,
    TensorMeta,
)
from webpte.kernels import Kernel, OutSpec, fit_output, lookup_kernel
from webpte.runtime.contents import MethodContents
from webpte.runtime.delegate import GpuDelegate
from webpte.runtime.device_plan import GpuTensor
from webpte.runtime.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.runtime.values import Values, sharing

# Instructions per call: a loop that never ends must not hang the page.
MAX_INSTRUCTIONS = 1_000_000


class Delegate(Protocol):
    """What GpuDelegate and NumpyDelegate have in common."""

    @property
    def input_count(self) -> int: ...

    async def execute(self, inputs: Sequence[Any]) -> list[Any]: ...


class Method:
    """Runs one execution plan over its delegates and kernels."""

    def __init__(
        self,
        contents: MethodContents,
        delegates: Sequence[Delegate],
        state: dict[int, np.ndarray],
    ) -> None:
        self.info: MethodInfo = contents.info
        self._plan: ExecutionPlan = contents.plan
        self._delegates = delegates
        self._state = state
        self._instructions = [i for chain in self._plan.chains for i in chain]
        self._on_host = self._find_host_values()
        # Tensors that stay on the GPU are overwritten by the next call: one call at a time.
        self._lock = asyncio.Lock()
        self.kernel_ms: dict[str, float] = {}

    def _find_host_values(self) -> set[int]:
        """Values that are needed as arrays; what only delegates read can stay on the GPU."""
        needed = set(self._plan.outputs)
        for instruction in self._instructions:
            if isinstance(instruction, KernelCall):
                needed.update(instruction.args)
            elif isinstance(instruction, MoveCall):
                needed |= {instruction.move_from, instruction.move_to}
            elif isinstance(instruction, JumpFalseCall):
                needed.add(instruction.cond_value_index)
        for index in list(needed):
            value = self._plan.values[index]
            if isinstance(value, TensorList | OptionalTensorList):
                needed.update(value.items)
        return needed | sharing(self._plan, needed)

    @property
    def only_delegate(self) -> Delegate | None:
        """The delegate that is the whole method, if there is one: its outputs are the method's."""
        calls = [i for i in self._instructions if not isinstance(i, FreeCall)]
        if len(calls) != 1 or not isinstance(calls[0], DelegateCall):
            return None
        whole = calls[0].args == (*self._plan.inputs, *self._plan.outputs)
        return self._delegates[calls[0].delegate_index] if whole else None

    async def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        values = Values(self._plan, self._state)
        for index, value in zip(self._plan.inputs, self.check_inputs(inputs), strict=True):
            values.store(index, value)
        if len(self._instructions) == 1:
            await self._run_chain(self._instructions, values)
        else:
            async with self._lock:
                for chain in self._plan.chains:
                    await self._run_chain(chain, values)
        outputs = tuple(
            self._finish(info, values, index)
            for info, index in zip(self.info.outputs, self._plan.outputs, strict=True)
        )
        values.keep_state()
        return outputs

    async def _run_chain(self, chain: Sequence[Instruction], values: Values) -> None:
        position = 0
        for _ in range(MAX_INSTRUCTIONS):
            if position >= len(chain):
                return
            instruction = chain[position]
            position += 1
            try:
                if isinstance(instruction, JumpFalseCall):
                    if not self._condition(instruction, values):
                        position = instruction.destination
                else:
                    await self._run_instruction(instruction, values)
            except InputError:
                raise
            except Exception as error:
                step = self._describe(instruction)
                message = str(error).removeprefix(f"{step}: ")  # kernels say their name
                raise ExecutionError(f"method {self.info.name!r}, {step}: {message}") from error
        raise ExecutionError(
            f"method {self.info.name!r}: {MAX_INSTRUCTIONS} instructions without an end"
        )

    def _describe(self, instruction: Instruction) -> str:
        if isinstance(instruction, DelegateCall):
            return f"delegate {instruction.delegate_index}"
        if isinstance(instruction, KernelCall):
            return self._plan.operators[instruction.op_index].full_name
        return type(instruction).__name__

    async def _run_instruction(self, instruction: Instruction, values: Values) -> None:
        if isinstance(instruction, DelegateCall):
            await self._call_delegate(instruction, values)
        elif isinstance(instruction, KernelCall):
            self._call_kernel(instruction, values)
        elif isinstance(instruction, MoveCall):
            values.store(instruction.move_to, values[instruction.move_from])
        elif isinstance(instruction, FreeCall):
            values.free(instruction.value_index)

    def _condition(self, jump: JumpFalseCall, values: Values) -> bool:
        value = self._host_value(values, jump.cond_value_index)
        if isinstance(value, np.ndarray) and value.size == 1:
            return bool(value.reshape(-1)[0])
        if isinstance(value, bool):
            return value
        raise ExecutionError("the condition of a jump is neither a bool nor one element")

    async def _call_delegate(self, call: DelegateCall, values: Values) -> None:
        delegate = self._delegates[call.delegate_index]
        taken = delegate.input_count  # args: the delegate's inputs, then its outputs
        inputs = [self._delegate_value(values, index) for index in call.args[:taken]]
        outputs = call.args[taken:]
        results: Iterable[Any]
        if isinstance(delegate, GpuDelegate):
            keep = [index not in self._on_host for index in outputs]
            results = await delegate.execute_mixed(inputs, keep)
        else:
            results = await delegate.execute(inputs)
        for index, result in zip(outputs, results, strict=True):
            values.store(index, result)

    def _delegate_value(self, values: Values, index: int) -> Any:
        value = values[index]
        if not isinstance(value, np.ndarray | GpuTensor | int):
            kind = type(value).__name__
            raise ExecutionError(f"value {index} is a {kind}; delegates take tensors and ints")
        return value

    def _call_kernel(self, call: KernelCall, values: Values) -> None:
        name = self._plan.operators[call.op_index].full_name
        kernel = lookup_kernel(name)
        assert kernel is not None, "unsupported kernels are refused at load"
        started = perf_counter()
        targets = self._targets(kernel, call)
        unwritten = kernel.in_place and not values.is_written(targets[0])
        arguments = [
            None if unwritten and index == targets[0] else self._host_value(values, index)
            for index in call.args[: kernel.arguments]
        ]
        outs = [self._out_spec(index) for index in targets]
        results = kernel.run(arguments, [out for out in outs if out is not None])
        for index, out, result in zip(targets, outs, results, strict=True):
            values.store(index, result if out is None else fit_output(name, result, out))
        self.kernel_ms[name] = self.kernel_ms.get(name, 0.0) + (perf_counter() - started) * 1000

    def _targets(self, kernel: Kernel, call: KernelCall) -> Sequence[int]:
        """The values that a call writes."""
        if kernel.in_place:
            return call.args[:1]
        targets = call.args[kernel.arguments : kernel.arguments + kernel.outputs]
        if not kernel.list_output:
            return targets
        listed = self._plan.values[targets[0]]
        if not isinstance(listed, TensorList):
            raise ExecutionError(f"its output is a {type(listed).__name__}, not a list")
        return listed.items

    def _out_spec(self, index: int) -> OutSpec | None:
        """What a tensor output must look like; None for an output that is a number."""
        value = self._plan.values[index]
        if not isinstance(value, TensorMeta):
            return None
        dtype = dtype_of_program(value.scalar_type, f"value {index}")
        return OutSpec(dtype, value.sizes, value.dynamism != Dynamism.STATIC)

    def _host_value(self, values: Values, index: int) -> Any:
        """A value as kernels take it: lists of indices become lists of what they point at."""
        value = values[index]
        if isinstance(value, IntListRef | TensorList):
            return [self._host_value(values, item) for item in value.items]
        if isinstance(value, OptionalTensorList):
            return [None if i == -1 else self._host_value(values, i) for i in value.items]
        if isinstance(value, DoubleList | BoolList):
            return list(value.items)
        return value

    # Inputs and outputs

    def check_inputs(self, inputs: Sequence[Any]) -> list[Any]:
        expected = self.info.inputs
        if len(inputs) != len(expected):
            listed = "; ".join(map(str, expected)) or "none"
            raise InputError(
                f"method {self.info.name!r} takes {len(expected)} inputs ({listed}), "
                f"but {len(inputs)} were given"
            )
        return [
            self._check_array(info, value)
            if isinstance(info, TensorInfo)
            else self._check_scalar(info, value)
            for info, value in zip(expected, inputs, strict=True)
        ]

    def _check_array(self, info: TensorInfo, value: Any) -> np.ndarray:
        where = f"method {self.info.name!r}, {info}"
        if not isinstance(value, np.ndarray | np.generic):
            raise InputError(f"{where}: a NumPy array is needed, not a {type(value).__name__}")
        array, dtype = np.asarray(value), DTYPES[info.dtype].numpy
        if array.dtype != dtype:
            widened = array.dtype.kind in "iu" and dtype.kind in "iu"
            if not (widened and np.can_cast(array.dtype, dtype, "safe")):
                raise InputError(
                    f"{where}: {dtype} is needed, not {array.dtype}; "
                    f"convert with array.astype(np.{dtype})"
                )
            array = array.astype(dtype)
        if len(array.shape) != len(info.shape):
            raise InputError(
                f"{where}: rank {len(info.shape)} is needed, not {len(array.shape)}: "
                f"{list(array.shape)}"
            )
        if not all(
            0 <= size <= limit if info.dynamic else size == limit
            for size, limit in zip(array.shape, info.shape, strict=True)
        ):
            raise InputError(f"{where}: {list(array.shape)} was given")
        return array

    def _check_scalar(self, info: ScalarInfo, value: Any) -> Any:
        kinds: dict[str, tuple[type, ...]] = {
            "int": (int, np.integer),
            "float": (float, int, np.floating, np.integer),
            "bool": (bool, np.bool_),
            "str": (str,),
            "None": (type(None),),
        }
        if not isinstance(value, kinds[info.kind]):
            raise InputError(
                f"method {self.info.name!r}, {info}: a {info.kind} is needed, "
                f"not a {type(value).__name__}"
            )
        return value.item() if isinstance(value, np.generic) else value

    def _finish(self, info: TensorInfo | ScalarInfo, values: Values, index: int) -> Any:
        try:
            value = values[index]
        except ExecutionError as error:
            raise ExecutionError(
                f"method {self.info.name!r}: nothing computed {info.name}"
            ) from error
        if isinstance(info, ScalarInfo):
            return value
        if not isinstance(value, np.ndarray | np.generic):
            raise ExecutionError(
                f"method {self.info.name!r}: {info.name} is a {type(value).__name__}, not a tensor"
            )
        with np.errstate(all="ignore"):
            return np.array(value, dtype=DTYPES[info.dtype].numpy)  # a copy: state stays ours
