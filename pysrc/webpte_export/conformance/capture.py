"""Catches the programs of a test on their way to the runtime, and answers in its place.

A test lowers a model and runs it. While a `Recorder` listens, whatever is lowered is kept with the
exported program that it came from, and a runtime that is PyTorch itself answers the test's calls
and notes each of them: its inputs, and what PyTorch gives for them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte_export.errors import ExportError
from webpte_export.suite_writer import Array, Call


@dataclass
class Caught:
    """A lowered program, its model in PyTorch, and the calls that the test made."""

    program: bytes
    module: Any
    example: tuple[tuple[Any, ...], dict[str, Any]] | None
    outputs: int  # how many the program gives
    calls: list[Call] = field(default_factory=list)

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Answers a call with PyTorch's results, and notes it."""
        import torch
        from torch.utils._pytree import tree_leaves

        inputs = tuple(_array(leaf) for leaf in tree_leaves((args, kwargs)))
        with torch.no_grad():
            given = copy.deepcopy((args, kwargs))
            results = tree_leaves(self.module(*given[0], **given[1]))
        expected = tuple(_array(leaf) for leaf in results if leaf is not None)
        if len(results) != len(expected) or len(expected) != self.outputs:
            raise ExportError(
                f"PyTorch gives {len(expected)} of {len(results)} results, the program "
                f"{self.outputs}"
            )
        self.calls.append(Call(inputs, expected))
        return list(results)

    def call_with_example(self) -> None:
        """Calls a program that the test did not run with the inputs that it was exported with."""
        if not self.calls:
            if self.example is None:
                raise ExportError("the test neither runs the program nor has an example for it")
            args, kwargs = self.example
            self.run(*args, **kwargs)


class Recorder:
    """What was caught since the last `start`. There is one per process."""

    class Enough(BaseException):
        """Ends a test that has given as many programs as are wanted: tests catch exceptions."""

    def __init__(self) -> None:
        self.caught: list[Caught] = []
        self._most: int | None = None
        self._exported: Any = None

    def start(self, most: int | None = None) -> None:
        """Forgets what was caught; a test is ended when it lowers more than `most` programs."""
        self.caught, self._most, self._exported = [], most, None

    def listen(self) -> None:
        """Takes the places of the exporter's functions: before any test is imported."""
        import executorch.exir
        import executorch.exir.program
        import executorch.exir.program._program as programs
        from executorch.extension.pybindings import portable_lib

        for name in ("to_edge", "to_edge_transform_and_lower"):
            heard = self._noting(getattr(programs, name))
            for module in (programs, executorch.exir.program, executorch.exir):
                setattr(module, name, heard)
        lower = programs.EdgeProgramManager.to_executorch

        def to_executorch(manager: Any, *args: Any, **kwargs: Any) -> Any:
            lowered = lower(manager, *args, **kwargs)
            self._catch(manager, lowered)
            return lowered

        programs.EdgeProgramManager.to_executorch = to_executorch
        portable_lib._load_for_executorch_from_buffer = self._load

    def _noting(self, function: Any) -> Any:
        def noted(exported: Any, *args: Any, **kwargs: Any) -> Any:
            self._exported = exported
            manager = function(exported, *args, **kwargs)
            manager.webpte_source = exported
            return manager

        return noted

    def _catch(self, manager: Any, lowered: Any) -> None:
        """Keeps what a test lowered; what has several methods is no test of a backend."""
        # Passes may have made a new manager since: then the last one lowered is its source.
        exported = getattr(manager, "webpte_source", self._exported)
        plans = lowered.executorch_program.execution_plan
        if isinstance(exported, dict):
            exported = exported.get("forward")
        if exported is None or len(plans) != 1:
            return
        if self._most is not None and len(self.caught) >= self._most:
            raise Recorder.Enough
        self.caught.append(
            Caught(
                bytes(lowered.buffer),
                exported.module(),
                exported.example_inputs,
                len(plans[0].outputs),
            )
        )

    def _load(self, program: bytes, *_args: Any, **_kwargs: Any) -> _Answering:
        for caught in reversed(self.caught):
            if caught.program == program:
                return _Answering(caught)
        raise ExportError("the test runs a program that it did not lower")


class _Answering:
    """The face of ExecuTorch's runtime over a caught program."""

    def __init__(self, caught: Caught) -> None:
        self._caught = caught

    def run_method(self, _name: str, inputs: Sequence[Any], **_kwargs: Any) -> list[Any]:
        return self.forward(inputs)

    def forward(self, inputs: Sequence[Any], **_kwargs: Any) -> list[Any]:
        """Nested inputs come flat; the model takes them as its example has them."""
        from torch.utils._pytree import tree_structure, tree_unflatten

        if self._caught.example is None:
            return self._caught.run(*inputs)
        args, kwargs = tree_unflatten(list(inputs), tree_structure(self._caught.example))
        return self._caught.run(*args, **kwargs)


def _array(value: Any) -> Array:
    """An input or a result for the suite."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        raise ExportError("an input or output is bfloat16, which WebGPU does not have")
    array: Array = value.detach().clone().contiguous().numpy()
    return array
