"""Arguments by name: maps positions in a call to names and Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from webpte.engine.dtypes import DType
from webpte.engine.format.vulkan import (
    BoolListValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    IntListValue,
    IntValue,
    NullValue,
    StringValue,
    SymIntValue,
    ValueListValue,
)
from webpte.engine.graph.graph import Call, Graph, Tensor
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops.core.records import IndexFlag, SymIntBound, SymIntUniform, pack
from webpte.engine.ops.core.signature import Parameter, Signature
from webpte.engine.ops.core.target import GPU, Target
from webpte.engine.shapes import Dims, numel
from webpte.errors import GraphError


class TensorArg(NamedTuple):  # a tuple: the most frequent object of an opening
    """A tensor argument of an op: live dims, element type, and an id to bind."""

    id: int
    dtype: DType
    dims: Dims
    maximum: Dims

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def numel(self) -> int:
        return numel(self.dims)

    def with_dims(self, dims: Dims) -> TensorArg:
        """Return the tensor with other dims."""
        return self._replace(dims=dims)


class Args:
    """The arguments of a call, by name, at the live state of the graph.

    With `arrays` (value id to array) `array` also serves NumPy references. Lowerings choose kernels
    by `target`.
    """

    def __init__(
        self,
        signature: Signature,
        call: Call,
        graph: Graph,
        live: LiveState,
        arrays: Mapping[int, np.ndarray] | None = None,
        target: Target = GPU,
    ) -> None:
        self.call = call
        self.target = target
        self._signature = signature
        self._graph = graph
        self._live = live
        self._arrays = arrays
        given = len(call.args) - 1
        if not signature.required <= given <= len(signature.parameters):
            raise GraphError(
                f"{call}: takes {len(signature.parameters)} arguments and an output, "
                f"but the file gives {len(call.args)} ids"
            )

    def of_part(
        self, signature: Signature, call: Call, arrays: Mapping[int, np.ndarray] | None = None
    ) -> Args:
        """Return the arguments of a part of this fused call."""
        return Args(signature, call, self._graph, self._live, arrays, self.target)

    def set_inner_dims(self, value_id: int, dims: Dims) -> None:
        """Set the live dims of a value that exists only between the parts of this call."""
        self._live.set_cur_dims(value_id, dims)

    @property
    def tensor_ids(self) -> list[int]:
        """Ids of the tensors among the arguments, including members of lists."""
        ids = self._graph.expand(self.call.args[:-1])
        return [i for i in ids if isinstance(self._graph.value(i), Tensor)]

    # Ids

    @property
    def given(self) -> list[tuple[Parameter, int]]:
        """Arguments in the file, with their value ids."""
        return list(zip(self._signature.parameters, self.call.args[:-1], strict=False))

    def _find(self, name: str, *kinds: str) -> tuple[Parameter, int | None]:
        position = self._signature.positions[name]
        parameter, ids = self._signature.parameters[position], self.call.args
        assert parameter.kind in kinds, f"{name} is declared as {parameter.kind}"
        return parameter, ids[position] if position < len(ids) - 1 else None

    def _value(self, name: str, *kinds: str) -> tuple[Parameter, int, Any]:
        """Return the value, or the parameter's default (id -1 if absent); None where null is
        allowed.
        """
        parameter, value_id = self._find(name, *kinds)
        if value_id is None:
            return parameter, -1, parameter.default
        value = self._graph.value(value_id)
        if isinstance(value, NullValue):
            # The exporter writes null both for "the default" and for None.
            if not parameter.nullable and not parameter.optional:
                raise self._wrong(parameter, value_id)
            return parameter, value_id, parameter.default
        return parameter, value_id, value

    def _wrong(self, parameter: Parameter, value_id: int) -> GraphError:
        return GraphError(
            f"{self.call}: argument {parameter.name!r} (value {value_id}) is "
            f"{self._graph.kind(value_id)}, expected {parameter.kind}"
        )

    # Tensors

    def _tensor_arg(self, tensor: Tensor) -> TensorArg:
        return TensorArg(tensor.id, tensor.dtype, self._live.cur_dims(tensor.id), tensor.dims)

    def optional_tensor(self, name: str) -> TensorArg | None:
        signature, ids = self._signature, self.call.args
        position = signature.positions[name]
        if position < len(ids) - 1 and signature.parameters[position].kind == "tensor":
            found = self._graph.value(ids[position])
            if type(found) is Tensor:  # the most frequent case
                return TensorArg(found.id, found.dtype, self._live.cur_dims(found.id), found.dims)
        parameter, value_id, value = self._value(name, "tensor")
        if value is None:
            return None
        raise self._wrong(parameter, value_id)

    def is_constant(self, tensor: TensorArg) -> bool:
        """Return whether a tensor is a constant of the file, which no call of the program gives."""
        return self._graph.tensor(tensor.id).constant is not None and (
            tensor.id not in self._graph.inputs
        )

    def tensor(self, name: str) -> TensorArg:
        tensor = self.optional_tensor(name)
        if tensor is None:
            raise GraphError(f"{self.call}: argument {name!r} must be a tensor, not null")
        return tensor

    def tensors(self, name: str) -> list[TensorArg | None]:
        parameter, value_id, value = self._value(name, "tensors")
        if not isinstance(value, ValueListValue):
            raise self._wrong(parameter, value_id)
        return [
            None
            if isinstance(self._graph.value(item), NullValue)
            else self._tensor_arg(self._graph.tensor(item))
            for item in value.items
        ]

    @property
    def outs(self) -> list[TensorArg]:
        """All outputs of an op declared `-> tensor` or `-> tensors`."""
        last = self.call.args[-1]
        if self._signature.output == "tensor":
            return [self._tensor_arg(self._graph.tensor(last))]
        return [self._tensor_arg(self._graph.tensor(i)) for i in self._graph.value_list(last)]

    @property
    def out(self) -> TensorArg:
        """The only output of an op declared `-> tensor`."""
        return self._tensor_arg(self._graph.tensor(self.call.args[-1]))

    # Scalars and lists

    def optional_number(self, name: str) -> float | int | None:
        parameter, value_id, value = self._value(name, "number", "int", "live")
        if isinstance(value, IntValue | DoubleValue | BoolValue):
            return value.value
        if isinstance(value, SymIntValue):
            return self._live.symint(value_id)
        if value is None or isinstance(value, int | float):
            return value
        raise self._wrong(parameter, value_id)

    def number(self, name: str) -> float | int:
        number = self.optional_number(name)
        if number is None:
            raise GraphError(f"{self.call}: argument {name!r} must be a number, not null")
        return number

    def optional_integer(self, name: str) -> int | None:
        number = self.optional_number(name)
        if number is None:
            return None
        if not float(number).is_integer():
            raise GraphError(f"{self.call}: argument {name!r} must be an integer, not {number}")
        return int(number)

    def integer(self, name: str) -> int:
        number = self.optional_integer(name)
        if number is None:
            raise GraphError(f"{self.call}: argument {name!r} must be an integer, not null")
        return number

    def flag(self, name: str) -> bool:
        parameter, value_id, value = self._value(name, "bool")
        if isinstance(value, BoolValue | IntValue):
            return bool(value.value)
        if isinstance(value, bool):
            return value
        raise self._wrong(parameter, value_id)

    def optional_string(self, name: str) -> str | None:
        parameter, value_id, value = self._value(name, "str")
        if isinstance(value, StringValue):
            return value.value
        if value is None or isinstance(value, str):
            return value
        raise self._wrong(parameter, value_id)

    def string(self, name: str) -> str:
        string = self.optional_string(name)
        if string is None:
            raise GraphError(f"{self.call}: argument {name!r} must be a string, not null")
        return string

    def optional_integers(self, name: str) -> list[int] | None:
        parameter, value_id, value = self._value(name, "ints")
        if value is None:
            return None
        if isinstance(value, IntListValue):
            return list(value.items)
        if isinstance(value, ValueListValue):
            return [self._list_int(item) for item in value.items]
        # An empty Python list is written as whichever list type the exporter tries first.
        if isinstance(value, BoolListValue | DoubleListValue) and not value.items:
            return []
        raise self._wrong(parameter, value_id)

    def _list_int(self, value_id: int) -> int:
        value = self._graph.value(value_id)
        if isinstance(value, SymIntValue):
            return self._live.symint(value_id)
        if isinstance(value, IntValue):
            return value.value
        if isinstance(value, DoubleValue) and value.value.is_integer():
            return int(value.value)
        raise GraphError(
            f"{self.call}: a list member (value {value_id}) is "
            f"{self._graph.kind(value_id)}, expected an int or a SymInt"
        )

    def integers(self, name: str) -> list[int]:
        ints = self.optional_integers(name)
        if ints is None:
            raise GraphError(f"{self.call}: argument {name!r} must be a list, not null")
        return ints

    def optional_floats(self, name: str) -> list[float] | None:
        parameter, value_id, value = self._value(name, "floats")
        if value is None:
            return None
        if isinstance(value, DoubleListValue | IntListValue):
            return [float(item) for item in value.items]
        raise self._wrong(parameter, value_id)

    def uniform(self, name: str) -> SymIntUniform | bytes:
        """Return the binding of an integer that the kernel reads live, as a `vec4<i32>` uniform."""
        _, value_id = self._find(name, "live", "int")
        if value_id is not None and isinstance(self._graph.value(value_id), SymIntValue):
            return SymIntUniform(value_id)
        return pack("4i", self.integer(name), 0, 0, 0)

    def bound(self, name: str, low: int, high: int, why: str) -> list[SymIntBound]:
        """Return the range of a `live` SymInt as a record; check a plain integer at once."""
        uniform, message = self.uniform(name), f"{self.call}: {why}"
        if isinstance(uniform, SymIntUniform):
            return [SymIntBound(uniform.value_id, low, high, message)]
        if not low <= self.integer(name) <= high:
            raise GraphError(f"{message}: {name} is {self.integer(name)}, not {low} to {high}")
        return []

    def symint_out(self) -> int:
        """Return the live value of the SymInt that the call yields; 0 for a plain int."""
        last = self.call.args[-1]
        return self._live.symint(last) if self._graph.is_symint(last) else 0

    def set_symint_out(self, value: int) -> None:
        """Set the SymInt that the call yields.

        Exports with static shapes keep some of these ops with a plain int: there is nothing to set.
        """
        if self._graph.is_symint(self.call.args[-1]):
            self._live.set_symint(self.call.args[-1], value)

    def index_flag(self, *indices: tuple[TensorArg, int], wraps: bool = True) -> IndexFlag:
        """Return the index flag of a kernel that checks index tensors, each with the size that it
        indexes; `wraps`: negative indices count from the end.
        """
        sizes = tuple((tensor.id, size) for tensor, size in indices)
        return IndexFlag(self.call.index + 1, str(self.call), sizes, wraps)

    # References

    @property
    def all_arrays(self) -> Mapping[int, np.ndarray]:
        """Arrays by value id; only while a reference runs."""
        assert self._arrays is not None
        return self._arrays

    def array(self, name: str) -> np.ndarray:
        """Return the array of a tensor argument; only while a reference runs."""
        assert self._arrays is not None
        return self._arrays[self.tensor(name).id]

    def optional_array(self, name: str) -> np.ndarray | None:
        tensor = self.optional_tensor(name)
        assert self._arrays is not None
        return None if tensor is None else self._arrays[tensor.id]

    def arrays(self, name: str) -> list[np.ndarray | None]:
        arrays = self._arrays
        assert arrays is not None
        return [None if item is None else arrays[item.id] for item in self.tensors(name)]
