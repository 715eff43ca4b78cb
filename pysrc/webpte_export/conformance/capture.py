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

# Operators whose result is memory that nobody wrote: there is nothing to compare.
_UNWRITTEN = ("llama.update_cache",)


@dataclass(frozen=True)
class CapturedModel:
    """A model as PyTorch exported it, taken before the exporter takes its weights out of it."""

    module: Any
    example: tuple[tuple[Any, ...], dict[str, Any]] | None
    unwritten: frozenset[int]  # results that hold nothing

    @classmethod
    def of(cls, exported: Any) -> CapturedModel:
        (output,) = (node for node in exported.graph.nodes if node.op == "output")
        targets = [str(getattr(node, "target", "")) for node in output.args[0]]
        unwritten = {i for i, name in enumerate(targets) if name.startswith(_UNWRITTEN)}
        return cls(exported.module(), exported.example_inputs, frozenset(unwritten))


@dataclass
class Caught:
    """A lowered program, its model in PyTorch, and the calls that the test made."""

    program: bytes
    source: CapturedModel
    outputs: tuple[int | None, ...]  # the input that each is, changed; None: the next result
    calls: list[Call] = field(default_factory=list)

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Answers a call with PyTorch's results, and notes it."""
        import torch
        from torch.utils._pytree import tree_leaves

        inputs = tuple(
            leaf if isinstance(leaf, int | float) else _array(leaf)
            for leaf in tree_leaves((args, kwargs))
        )
        with torch.no_grad():
            given = copy.deepcopy((args, kwargs))
            results = tree_leaves(self.source.module(*given[0], **given[1]))
        if len(results) != self.outputs.count(None) or any(leaf is None for leaf in results):
            raise ExportError(
                f"PyTorch gives {len(results)} results, the program {self.outputs.count(None)}"
            )
        changed, rest = tree_leaves(given), iter(enumerate(results))
        expected: list[Array | None] = []
        answer = []
        for at in self.outputs:
            number, value = next(rest) if at is None else (-1, changed[at])
            expected.append(None if number in self.source.unwritten else _array(value))
            answer.append(value)
        self.calls.append(Call(inputs, tuple(expected)))
        return answer

    def call_with_example(self) -> None:
        """Calls a program that the test did not run with the inputs that it was exported with."""
        if not self.calls:
            if self.source.example is None:
                raise ExportError("the test neither runs the program nor has an example for it")
            args, kwargs = self.source.example
            self.run(*args, **kwargs)


class Recorder:
    """Programs caught since the last `start`. There is one per process."""

    class Enough(KeyboardInterrupt):
        """Ends a test that has given as many programs as are wanted: no test stops this."""

    def __init__(self) -> None:
        self.caught: list[Caught] = []
        self._most: int | None = None
        self._source: CapturedModel | None = None

    def start(self, most: int | None = None) -> None:
        """Forgets what was caught; a test is ended when it lowers more than `most` programs."""
        self.caught, self._most, self._source = [], most, None

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
            outputs = _outputs(manager)  # before it is lowered, which changes it
            lowered = lower(manager, *args, **kwargs)
            self._catch(manager, lowered, outputs)
            return lowered

        programs.EdgeProgramManager.to_executorch = to_executorch
        portable_lib._load_for_executorch_from_buffer = self._load

    def _noting(self, function: Any) -> Any:
        def noted(exported: Any, *args: Any, **kwargs: Any) -> Any:
            single = exported.get("forward") if isinstance(exported, dict) else exported
            self._source = None if single is None else CapturedModel.of(single)
            manager = function(exported, *args, **kwargs)
            manager.webpte_source = self._source
            return manager

        return noted

    def _catch(self, manager: Any, lowered: Any, outputs: tuple[int | None, ...]) -> None:
        """Keeps what a test lowered; what has several methods is no test of a backend."""
        # Passes may have made a new manager since: then the last one lowered is its source.
        source = getattr(manager, "webpte_source", self._source)
        if source is None or len(lowered.executorch_program.execution_plan) != 1:
            return
        if self._most is not None and len(self.caught) >= self._most:
            raise Recorder.Enough
        self.caught.append(Caught(bytes(lowered.buffer), source, outputs))

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

        example = self._caught.source.example
        if example is None:
            return self._caught.run(*inputs)
        args, kwargs = tree_unflatten(list(inputs), tree_structure(example))
        return self._caught.run(*args, **kwargs)


def _outputs(manager: Any) -> tuple[int | None, ...]:
    """Compute the outputs of a program: inputs that it changes come back, buffers do not."""
    from torch.export.graph_signature import OutputKind

    signature = manager.exported_program().graph_signature
    places = {name: at for at, name in enumerate(signature.user_inputs)}
    found: list[int | None] = []
    for spec in signature.output_specs:
        if spec.kind == OutputKind.USER_INPUT_MUTATION:
            found.append(places[spec.target])
        elif spec.kind == OutputKind.USER_OUTPUT:
            found.append(None)
    return tuple(found)


def _array(value: Any) -> Array:
    """An input or a result for the suite."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        raise ExportError("an input or output is bfloat16, which WebGPU does not have")
    array: Array = value.detach().clone().contiguous().numpy()
    return array
