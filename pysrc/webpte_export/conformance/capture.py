"""Captures the programs that a test lowers, and answers its calls in place of the runtime.

A test lowers a model and runs it. While a `Recorder` listens, each lowered program is kept with its
exported program. PyTorch itself answers the test's calls, and each call is recorded with its inputs
and PyTorch's results. For a backend that the installed runtime has, the runtime answers, and the
largest difference from PyTorch is recorded.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from webpte_export.errors import ExportError
from webpte_export.suite_writer import Array, Call

PYTORCH, RUNTIME = "PyTorch", "ExecuTorch"

# Operators with uninitialized memory as their result, which cannot be compared.
_UNWRITTEN = ("llama.update_cache",)


@dataclass(frozen=True)
class CapturedModel:
    """A model as PyTorch exported it, before the exporter removes its weights."""

    module: Any
    example: tuple[tuple[Any, ...], dict[str, Any]] | None
    unwritten: frozenset[int]  # uninitialized results

    @classmethod
    def of(cls, exported: Any) -> CapturedModel:
        (output,) = (node for node in exported.graph.nodes if node.op == "output")
        targets = [str(getattr(node, "target", "")) for node in output.args[0]]
        unwritten = {i for i, name in enumerate(targets) if name.startswith(_UNWRITTEN)}
        return cls(exported.module(), exported.example_inputs, frozenset(unwritten))


@dataclass
class CapturedProgram:
    """A lowered program, its model in PyTorch, and the calls that the test made."""

    program: bytes
    source: CapturedModel
    outputs: tuple[int | None, ...]  # for each, the input that it mutates; None: the next result
    load: Callable[[bytes], Any] | None = None  # loads it in ExecuTorch's runtime
    calls: list[Call] = field(default_factory=list)
    difference: float = 0.0  # between PyTorch and the runtime, as a share of the largest number
    fault: str | None = None  # the reason why the runtime does not run it
    _loaded: Any = None

    @property
    def expected_from(self) -> str:
        """The origin of the expected outputs of all calls."""
        return PYTORCH if self.load is None or self.fault is not None else RUNTIME

    def run(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Answer a call with PyTorch's or the runtime's results, and record it."""
        from torch.utils._pytree import tree_leaves

        leaves = tree_leaves((args, kwargs))
        inputs = tuple(leaf if isinstance(leaf, int | float) else _array(leaf) for leaf in leaves)
        answer, written = self._by_pytorch(*args, **kwargs)
        ran = self._by_runtime(leaves)
        if ran is not None:
            self.difference = max(self.difference, *map(_difference, ran, answer))
            answer = list(map(_with_nan, ran, answer))
        expected = [
            _array(value) if there else None for value, there in zip(answer, written, strict=True)
        ]
        self.calls.append(Call(inputs, tuple(expected)))
        return answer

    def _by_pytorch(self, *args: Any, **kwargs: Any) -> tuple[list[Any], list[bool]]:
        """Return the outputs, and for each whether PyTorch writes it."""
        import torch
        from torch.utils._pytree import tree_leaves

        with torch.no_grad():
            given = copy.deepcopy((args, kwargs))
            results = tree_leaves(self.source.module(*given[0], **given[1]))
        if len(results) != self.outputs.count(None) or any(leaf is None for leaf in results):
            raise ExportError(
                f"PyTorch returns {len(results)} results, the program {self.outputs.count(None)}"
            )
        changed, rest = tree_leaves(given), iter(enumerate(results))
        answer, written = [], []
        for at in self.outputs:
            number, value = next(rest) if at is None else (-1, changed[at])
            written.append(number not in self.source.unwritten)
            answer.append(value)
        return answer, written

    def _by_runtime(self, leaves: Sequence[Any]) -> list[Any] | None:
        """Return the runtime's outputs; None if there is no runtime, or it fails at any call."""
        if self.load is None or self.fault is not None:
            return None
        try:
            if self._loaded is None:
                self._loaded = self.load(self.program)
            results = self._loaded.run_method("forward", tuple(copy.deepcopy(list(leaves))))
            return copy.deepcopy(list(results))  # the next call writes to the same memory
        except Exception as error:
            if self.calls:
                raise  # earlier calls have the runtime's results
            self.fault = f"{type(error).__name__}: {error}".splitlines()[0]
            return None

    def call_with_example(self) -> None:
        """Call a program that the test did not run with the inputs of its export."""
        if not self.calls:
            if self.source.example is None:
                raise ExportError("the test neither runs the program nor has an example for it")
            args, kwargs = self.source.example
            self.run(*args, **kwargs)


class Recorder:
    """The programs captured since the last `start`. There is a single recorder per process.

    With `runs`, ExecuTorch's runtime gives the expected outputs.
    """

    class Enough(KeyboardInterrupt):
        """The end of a test that has lowered enough programs; tests do not catch it."""

    def __init__(self, *, runs: bool = False) -> None:
        self._runs = runs
        self._runtime: Callable[[bytes], Any] | None = None
        self.captured: list[CapturedProgram] = []
        self._most: int | None = None
        self._source: CapturedModel | None = None

    def start(self, most: int | None = None) -> None:
        """Forget earlier programs; a test ends when it lowers more than `most`."""
        self.captured, self._most, self._source = [], most, None

    def listen(self) -> None:
        """Replace the exporter's functions, before any test is imported."""
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
            outputs = _outputs(manager)  # before lowering, which changes it
            lowered = lower(manager, *args, **kwargs)
            self._capture(manager, lowered, outputs)
            return lowered

        programs.EdgeProgramManager.to_executorch = to_executorch
        loader = _runtime_loader()
        if self._runs:
            importlib.import_module("executorch.kernels.quantized")
            self._runtime = loader
        portable_lib._load_for_executorch_from_buffer = self._load

    def _noting(self, function: Any) -> Any:
        def noted(exported: Any, *args: Any, **kwargs: Any) -> Any:
            single = exported.get("forward") if isinstance(exported, dict) else exported
            self._source = None if single is None else CapturedModel.of(single)
            manager = function(exported, *args, **kwargs)
            manager.webpte_source = self._source
            return manager

        return noted

    def _capture(self, manager: Any, lowered: Any, outputs: tuple[int | None, ...]) -> None:
        """Keep a lowered program, unless it has several methods, as no test of a backend does."""
        # Passes may have created a new manager: then the last one lowered is its source.
        source = getattr(manager, "webpte_source", self._source)
        if source is None or len(lowered.executorch_program.execution_plan) != 1:
            return
        if self._most is not None and len(self.captured) >= self._most:
            raise Recorder.Enough
        if lowered._tensor_data:  # without them the runtime ends the process
            raise ExportError("the program has its weights in a file of their own")
        program = bytes(lowered.buffer)
        self.captured.append(CapturedProgram(program, source, outputs, self._runtime))

    def _load(self, program: bytes, *_args: Any, **_kwargs: Any) -> _Answering:
        for captured in reversed(self.captured):
            if captured.program == program:
                return _Answering(captured)
        raise ExportError("the test runs a program that it did not lower")


@functools.cache
def _runtime_loader() -> Callable[[bytes], Any]:
    """Return the runtime's function, before a recorder replaces it."""
    from executorch.extension.pybindings import portable_lib

    load: Callable[[bytes], Any] = portable_lib._load_for_executorch_from_buffer
    return load


class _Answering:
    """The interface of ExecuTorch's runtime over a captured program."""

    def __init__(self, captured: CapturedProgram) -> None:
        self._caught = captured

    def run_method(self, _name: str, inputs: Sequence[Any], **_kwargs: Any) -> list[Any]:
        return self.forward(inputs)

    def forward(self, inputs: Sequence[Any], **_kwargs: Any) -> list[Any]:
        """Nest the flat inputs like the model's example, and call it."""
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


def _difference(result: Any, other: Any) -> float:
    """Return the largest difference of two results, as a share of the largest number in them.

    Integers and bools do not count: they must be equal.
    """
    import torch

    if not isinstance(result, torch.Tensor) or not result.is_floating_point():
        return 0.0
    if result.shape != other.shape:
        return 1.0
    largest = result.double().nan_to_num(0, 0, 0).abs().amax() if result.numel() else 0.0
    apart = (result.double() - other.double()).nan_to_num(0, 0, 0).abs()
    return float(apart.amax() / largest) if largest else 0.0


def _with_nan(ran: Any, other: Any) -> Any:
    """Return a result of the runtime with PyTorch's NaN, for which XNNPACK may give a number."""
    import torch

    if not isinstance(ran, torch.Tensor) or not other.is_floating_point():
        return ran
    return torch.where(other.isnan(), other, ran) if ran.shape == other.shape else ran


def _array(value: Any) -> Array:
    """Convert an input or a result for the suite."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    if value.dtype == torch.bfloat16:
        value = value.float()  # as programs return it
    array: Array = value.detach().clone().contiguous().numpy()
    return array
