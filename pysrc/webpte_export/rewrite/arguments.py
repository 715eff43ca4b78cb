"""Arguments of models: keywords, numbers and nested structures become inputs of a program.

A program takes tensors, in order. A model with other arguments is wrapped in a module whose
parameters have the same names and take tensors only. A number that differs between the calls
becomes a tensor without dims; a number, a text or None that is the same in all calls is a constant.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from webpte_export.errors import ExportError


def with_signature(base: type, signature: inspect.Signature) -> type:
    """Return a subclass whose `forward` calls `run` and has a signature, which exporters read."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *signature.parameters.values()]
    )
    return type(base.__name__, (base,), {"forward": forward})


class Called(nn.Module):
    """A model that is called with the tensors among its arguments.

    `spec` is the structure of all arguments by name; `places` has the numbers of a parameter's
    leaves in it, `fixed` the values of the leaves that are constants.
    """

    def __init__(
        self, model: Any, spec: Any, places: Sequence[Sequence[int]], fixed: Mapping[int, Any]
    ) -> None:
        super().__init__()
        self.model = model
        self._spec, self._places, self._fixed = spec, places, fixed

    def run(self, *args: Any, **kwargs: Any) -> Any:
        leaves = [self._fixed.get(number) for number in range(self._spec.num_leaves)]
        for given, places in zip((*args, *kwargs.values()), self._places, strict=True):
            for place, leaf in zip(places, pytree.tree_leaves(given), strict=True):
                leaves[place] = leaf
        named = pytree.tree_unflatten(leaves, self._spec)
        bound = inspect.BoundArguments(inspect.signature(self.model.forward), named)
        return self.model(*bound.args, **bound.kwargs)


def arranged(
    model: Any, calls: Sequence[Any], keywords: Mapping[str, Any] | None, dynamic_shapes: Any
) -> tuple[Any, list[tuple[Any, ...]], Any]:
    """Return a module, its calls as tuples of tensors (or nested), and its dynamic shapes.

    A call is a tensor, a tuple of arguments, or a dict of arguments by name; `keywords` are added
    to calls that are not dicts.
    """
    pairs = [_arguments(call, keywords or {}) for call in calls]
    tensors = all(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(pairs))
    if tensors and not any(named for _, named in pairs):
        return model, [args for args, _ in pairs], dynamic_shapes
    signature = inspect.signature(model.forward)
    bound = [_bound(model, signature, *pair) for pair in pairs]
    flat = [pytree.tree_flatten(named) for named in bound]
    spec = flat[0][1]
    if any(other != spec for _, other in flat):
        raise ExportError(
            f"the calls of {type(model).__name__} have different arguments, but a program takes "
            "the same arguments in each call: give all of them in inputs and in more_inputs."
        )
    fixed, columns = _constants([leaves for leaves, _ in flat])
    parameters, places, start = [], [], 0
    for name, value in bound[0].items():
        count = len(pytree.tree_leaves(value))
        own = [place for place in range(start, start + count) if place not in fixed]
        start += count
        if own:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters.append(inspect.Parameter(name, kind))
            places.append(own)
    if not parameters:
        raise ExportError("inputs has no tensor: a program takes at least one.")
    made = with_signature(Called, inspect.Signature(parameters))(model, spec, places, fixed)
    results = [
        tuple(
            _packed([leaves[place] for place in own], bound[0][parameter.name])
            for parameter, own in zip(parameters, places, strict=True)
        )
        for leaves in columns
    ]
    if dynamic_shapes is not None:
        dynamic_shapes = _shapes(dynamic_shapes, bound[0], [p.name for p in parameters])
    return made.train(model.training), results, dynamic_shapes


def _arguments(call: Any, keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(call, Mapping):
        return (), dict(call)
    inputs = (call,) if isinstance(call, Tensor) else call
    if not isinstance(inputs, tuple):
        raise ExportError(
            "inputs must be a tensor, a tuple of arguments, or a dict of arguments by name, not "
            f"{type(call).__name__}."
        )
    return inputs, dict(keywords)


def _bound(
    model: Any, signature: inspect.Signature, args: tuple[Any, ...], named: Mapping[str, Any]
) -> dict[str, Any]:
    try:
        return dict(signature.bind(*args, **named).arguments)
    except TypeError as error:
        raise ExportError(
            f"{type(model).__name__}.forward{signature} does not take the inputs: {error}."
        ) from error


def _constants(calls: Sequence[list[Any]]) -> tuple[dict[int, Any], list[list[Any]]]:
    """Return the leaves that are constants, and the calls' leaves with numbers as tensors."""
    fixed: dict[int, Any] = {}
    columns = [list(leaves) for leaves in calls]
    for place, values in enumerate(zip(*calls, strict=True)):
        if all(isinstance(value, Tensor) for value in values):
            continue
        first = values[0]
        if all(type(value) is type(first) and value == first for value in values):
            fixed[place] = first
        elif all(isinstance(value, Tensor | int | float) for value in values):
            dtype = torch.float32 if any(isinstance(value, float) for value in values) else None
            for leaves in columns:
                if not isinstance(leaves[place], Tensor):
                    leaves[place] = torch.tensor(leaves[place], dtype=dtype)
        else:
            raise ExportError(
                f"an argument is {first!r} in one call and another value in the next. Only tensors "
                "and numbers may change; export one program for each value of the others."
            )
    return fixed, columns


def _packed(tensors: list[Any], value: Any) -> Any:
    """Return a parameter's tensors in their structure; as a list, if constants are left out."""
    leaves, spec = pytree.tree_flatten(value)
    return pytree.tree_unflatten(tensors, spec) if len(leaves) == len(tensors) else tensors


def _shapes(given: Any, named: Mapping[str, Any], kept: Sequence[str]) -> dict[str, Any]:
    """Return dynamic shapes by parameter, in the structure of `_packed`."""
    by_name = dict(given) if isinstance(given, Mapping) else dict(zip(named, given, strict=False))
    found: dict[str, Any] = {}
    for name in kept:
        value, shapes = named[name], by_name.get(name)
        whole = all(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
        found[name] = shapes if whole or shapes is None else list(_shapes_of(value, shapes))
    return found


def _shapes_of(value: Any, shapes: Any) -> Iterator[Any]:
    if isinstance(value, Tensor):
        yield shapes
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _shapes_of(each, None if shapes is None else shapes.get(key))
    elif isinstance(value, list | tuple):
        for number, each in enumerate(value):
            yield from _shapes_of(each, None if shapes is None else shapes[number])
