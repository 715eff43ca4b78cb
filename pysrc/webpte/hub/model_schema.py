"""The text of the method `get_model_schema`: the sizes that software-mansion's programs take.

    {"forward": {"inputs": [{"kind": "Tensor", "dtype": "float32", "shape": [DIM, ...]}]}, ...}

A DIM has one size, {"value": 384}, several, {"values": [384, 640]}, or a range of sizes, {"min":
32, "max": 640, "step": 32}. Dims of other kinds may have any size that the program takes. The text
has neither a task nor labels: these follow from names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.files.json_reader import Table, parse_table
from webpte.errors import ManifestError

SCHEMA_METHOD = "get_model_schema"
_LARGEST, _MOST_SIZES = (1 << 31) - 1, 1 << 12


def largest_input(
    methods: Mapping[str, MethodInfo], method: str, name: str
) -> tuple[int, ...] | None:
    """Return the largest sizes of a method's only input that the schema allows.

    Returns None without a schema of the method; raises ManifestError for a schema that is not
    possible, or of another input than the program has. `name` is the program's, for errors.
    """
    table = _schema_of(methods, method, name)
    info = methods[method]
    (given,) = info.inputs
    if table is None or not isinstance(given, TensorInfo):
        return None
    inputs = list(table.tables("inputs"))
    if len(inputs) != 1 or inputs[0].text("kind", "Tensor") != "Tensor":
        raise _of_another(table.name, info)
    dims = [_sizes(one) for one in inputs[0].tables("shape")]
    if len(dims) != len(given.shape):
        raise _of_another(table.name, info)
    found = []
    for sizes, (low, high) in zip(dims, given.bounds, strict=True):
        size = high if sizes is None else _largest(sizes, high)
        if size is None or size < low:
            raise _of_another(table.name, info)
        found.append(size)
    return tuple(found)


def _schema_of(methods: Mapping[str, MethodInfo], method: str, program: str) -> Table | None:
    said = methods.get(SCHEMA_METHOD)
    text = said.outputs[0] if said is not None and len(said.outputs) == 1 else None
    if said is None or not said.is_constant:
        return None
    name = f"{program}: {SCHEMA_METHOD}"
    if not isinstance(text, ScalarInfo) or not isinstance(text.value, str):
        raise ManifestError(f"{name} gives {text}, not a text")

    return parse_table(text.value, name, ManifestError).table(method, None)


def _sizes(dim: Table) -> Sequence[int] | None:
    """Return the sizes of a dim, from the smallest; None for any size."""
    if "value" in dim:
        return (dim.integer("value", low=0, high=_LARGEST),)
    if "values" in dim:
        values = dim.listed("values")
        fits = all(type(one) is int and 0 <= one <= _LARGEST for one in values)
        if not values or len(values) > _MOST_SIZES or not fits:
            raise ManifestError(f"{dim.name}: values must be up to {_MOST_SIZES:,} sizes")
        return sorted(values)
    if "min" not in dim or "max" not in dim:
        return None
    low = dim.integer("min", low=0, high=_LARGEST)
    high = dim.integer("max", low=low, high=_LARGEST)
    return range(low, high + 1, dim.integer("step", 1, low=1, high=_LARGEST))


def _largest(sizes: Sequence[int], most: int) -> int | None:
    """Return the largest size of at most `most`, or None."""
    if isinstance(sizes, range):
        steps = (min(sizes[-1], most) - sizes.start) // sizes.step
        return sizes.start + steps * sizes.step if steps >= 0 else None
    return max((size for size in sizes if size <= most), default=None)


def _of_another(name: str, info: MethodInfo) -> ManifestError:
    taken = "; ".join(map(str, info.inputs))
    return ManifestError(
        f"{name} describes another input than method {info.name!r} has, {taken}: give the sizes in "
        "a preprocessor_config.json beside the program"
    )
