"""One method of a program: checks its inputs, runs its instructions, hands out its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from webpte.dtypes import DTYPES
from webpte.errors import ExecutionError, InputError, UnsupportedError
from webpte.format.program import DelegateCall, ExecutionPlan, FreeCall, TensorMeta
from webpte.runtime.contents import MethodContents
from webpte.runtime.info import MethodInfo, ScalarInfo, TensorInfo


class Delegate(Protocol):
    """What GpuDelegate and NumpyDelegate have in common."""

    @property
    def input_count(self) -> int: ...

    async def execute(self, inputs: Sequence[np.ndarray | int]) -> list[np.ndarray]: ...


class Method:
    """Runs one execution plan over its delegates."""

    def __init__(self, contents: MethodContents, delegates: Sequence[Delegate]) -> None:
        self.info: MethodInfo = contents.info
        self._plan: ExecutionPlan = contents.plan
        self._delegates = delegates
        self._check_instructions()
        self._check_layouts()

    def _check_instructions(self) -> None:
        for chain in self._plan.chains:
            for instruction in chain:
                if not isinstance(instruction, DelegateCall | FreeCall):
                    raise UnsupportedError(
                        f"method {self.info.name!r}: {type(instruction).__name__} instructions "
                        "are not supported by this version of webpte"
                    )

    def _check_layouts(self) -> None:
        """Delegates take raw memory, so another dim order would be read as other numbers."""
        for index in (*self._plan.inputs, *self._plan.outputs):
            value = self._plan.values[index]
            if isinstance(value, TensorMeta) and value.dim_order != tuple(range(len(value.sizes))):
                raise UnsupportedError(
                    f"method {self.info.name!r}: a tensor with dim order {list(value.dim_order)} "
                    "is not supported by this version of webpte; export with contiguous tensors"
                )

    async def run(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        values = dict(enumerate(self._plan.values))
        values |= dict(zip(self._plan.inputs, self.check_inputs(inputs), strict=True))
        for chain in self._plan.chains:
            for instruction in chain:
                if isinstance(instruction, DelegateCall):
                    await self._call_delegate(instruction, values)
        return tuple(
            self._finish(info, values[index])
            for info, index in zip(self.info.outputs, self._plan.outputs, strict=True)
        )

    @property
    def only_delegate(self) -> Delegate | None:
        """The delegate that is the whole method, if there is one: its outputs are the method's."""
        instructions = [
            i for chain in self._plan.chains for i in chain if not isinstance(i, FreeCall)
        ]
        if len(instructions) != 1 or not isinstance(instructions[0], DelegateCall):
            return None
        delegate = self._delegates[instructions[0].delegate_index]
        args = instructions[0].args
        whole = args == (*self._plan.inputs, *self._plan.outputs)
        return delegate if whole else None

    async def _call_delegate(self, call: DelegateCall, values: dict[int, Any]) -> None:
        step = f"method {self.info.name!r}, delegate {call.delegate_index}"
        delegate = self._delegates[call.delegate_index]
        taken = delegate.input_count  # args: the delegate's inputs, then its outputs
        try:
            results = await delegate.execute([values[index] for index in call.args[:taken]])
        except Exception as error:
            raise ExecutionError(f"{step}: {error}") from error
        values |= dict(zip(call.args[taken:], results, strict=True))

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
        fits = len(array.shape) == len(info.shape) and all(
            0 <= size <= limit if info.dynamic else size == limit
            for size, limit in zip(array.shape, info.shape, strict=True)
        )
        if not fits:
            if len(array.shape) != len(info.shape):
                raise InputError(
                    f"{where}: rank {len(info.shape)} is needed, not {len(array.shape)}: "
                    f"{list(array.shape)}"
                )
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
        return value

    def _finish(self, info: TensorInfo | ScalarInfo, value: Any) -> Any:
        if isinstance(info, ScalarInfo):
            return value
        if isinstance(value, TensorMeta):
            raise ExecutionError(f"method {self.info.name!r}: nothing computed {info.name}")
        return np.asarray(value).astype(DTYPES[info.dtype].numpy, copy=False)
