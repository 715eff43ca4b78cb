"""The parts of ExecuTorch's tests: their cases, and how to run a case.

A case is a test of upstream: a function, a method of a test class, or an entry of a table. It may
lower several programs.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import itertools
import re
import sys
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from webpte_export.conformance.checkout import modules_under
from webpte_export.errors import ExportError

_BACKENDS = "executorch.backends"


@dataclass(frozen=True)
class Case:
    """A test. `run` raises the test's errors; programs lowered before an error are captured."""

    op: str
    name: str
    run: Callable[[], None]
    most: int | None = None  # programs to capture; a generator of arguments may yield hundreds

    @property
    def id(self) -> str:
        return f"{self.op}__{re.sub(r'[^A-Za-z0-9_]+', '_', self.name).strip('_')}"


class RefusedError(ExportError):
    """A test is skipped upstream, or the exporter rejects its model."""


def suite_cases(backends: Path) -> Iterator[Case]:
    """Yield the operators of backends/test/suite, in Vulkan's flows: floats and static int8."""
    for module in _imported(modules_under(backends, "test.suite.operators")):
        yield from _flow_cases(module)


def model_cases(backends: Path) -> Iterator[Case]:
    """Yield the models of backends/test/suite, with the tests' random weights."""
    for module in _imported(modules_under(backends, "test.suite.models")):
        yield from _flow_cases(module)


def vulkan_cases(_backends: Path) -> Iterator[Case]:
    yield from _class_cases(
        importlib.import_module(f"{_BACKENDS}.vulkan.test.test_vulkan_delegate")
    )


def webgpu_op_cases(backends: Path) -> Iterator[Case]:
    for module in _imported(modules_under(backends, "webgpu.test.ops")):
        yield from _class_cases(module)


def webgpu_table_cases(_backends: Path) -> Iterator[Case]:
    """Yield the table of backends/webgpu/test/op_tests, with heavy and unverified entries."""
    generator = importlib.import_module(f"{_BACKENDS}.webgpu.test.op_tests.generate_op_tests")
    for op, suite in generator.op_test_registry.items():
        for number, case in enumerate(suite.cases):
            yield Case(op, case.name or f"case{number}", _lowering(generator, suite, case))


def facto_cases(_backends: Path) -> Iterator[Case]:
    """Yield FACTO's operators: the first programs of each that Vulkan's partitioner accepts."""
    module = importlib.import_module(f"{_BACKENDS}.test.facto.test_facto")
    tester = importlib.import_module(f"{_BACKENDS}.vulkan.test.tester").VulkanTester

    class OnVulkan(module.FactoTestsBase):  # type: ignore[name-defined]
        def __init__(self, *args: Any) -> None:
            super().__init__(tester, *args)

    for name in unittest.TestLoader().getTestCaseNames(OnVulkan):
        yield Case("facto", name.removeprefix("test_"), _method(OnVulkan, name), most=6)


def xnnpack_op_cases(backends: Path) -> Iterator[Case]:
    """Yield the tests of backends/xnnpack/test, but for models and tests that lower nothing."""
    for package in ("ops", "passes", "fragments", "recipes"):
        for module in _imported(modules_under(backends, f"xnnpack.test.{package}")):
            yield from _class_cases(module)


def xnnpack_model_cases(backends: Path) -> Iterator[Case]:
    """Yield the models of backends/xnnpack/test, with random weights."""
    leave_weights_random()
    names = modules_under(backends, "xnnpack.test.models", "*.py")
    for module in _imported([name for name in names if not name.endswith("__init__")]):
        yield from _class_cases(module)


def xnnpack_suite_cases(backends: Path) -> Iterator[Case]:
    """Yield the operators of backends/test/suite, in XNNPACK's flows: floats and three of int8."""
    for module in _imported(modules_under(backends, "test.suite.operators")):
        yield from _flow_cases(module, "xnnpack")


@dataclass(frozen=True)
class Part:
    """A part of upstream's tests."""

    folder: str  # of the tests, in `backends`
    cases: Callable[[Path], Iterator[Case]]
    runs: bool = False  # in ExecuTorch's installed runtime, which has the backend
    torchvision: bool = False


PARTS: dict[str, Part] = {
    "webgpu_ops": Part("webgpu/test/ops", webgpu_op_cases),
    "suite": Part("test/suite", suite_cases),
    "vulkan": Part("vulkan/test", vulkan_cases),
    "webgpu_cases": Part("webgpu/test/op_tests", webgpu_table_cases),
    "facto": Part("test/facto", facto_cases),
    "models": Part("test/suite/models", model_cases, torchvision=True),
    "xnnpack_ops": Part("xnnpack/test/ops", xnnpack_op_cases, runs=True),
    "xnnpack_suite": Part("test/suite", xnnpack_suite_cases, runs=True),
    "xnnpack_models": Part("xnnpack/test/models", xnnpack_model_cases, runs=True, torchvision=True),
}


def _imported(names: list[str]) -> Iterator[Any]:
    """Yield the modules that can be imported, and print the names of the others."""
    for name in names:
        try:
            yield importlib.import_module(name)
        except Exception as error:
            print(f"{name} cannot be imported: {type(error).__name__}: {error}", file=sys.stderr)


def _op_of(module: Any) -> str:
    return str(module.__name__).rpartition(".")[2].removeprefix("test_")


_FLOWS = {
    "vulkan": ("VULKAN", "VULKAN_STATIC_INT8_PER_CHANNEL"),
    "xnnpack": (
        "XNNPACK",
        "XNNPACK_DYNAMIC_INT8_PER_CHANNEL",
        "XNNPACK_STATIC_INT8_PER_CHANNEL",
        "XNNPACK_STATIC_INT8_PER_TENSOR",
    ),
}


# Functions of backends/test/suite, which take a runner and parameters.


class _Runner:
    """A substitute for the runner that a test gets: it lowers a model in a single flow."""

    def __init__(self, flow: Any, name: str) -> None:
        self._flow, self._name, self._count = flow, name, 0

    def lower_and_run_model(
        self,
        model: Any,
        inputs: Any,
        generate_random_test_inputs: bool = True,
        dynamic_shapes: Any = None,
    ) -> None:
        runner = importlib.import_module(f"{_BACKENDS}.test.suite.runner")
        summary = runner.run_test(
            model,
            inputs,
            self._flow,
            self._name,
            self._name,
            self._count,
            None,
            dynamic_shapes=dynamic_shapes,
            generate_random_test_inputs=generate_random_test_inputs,
        )
        self._count += 1
        if not summary.result.is_success():
            raise RefusedError(f"{summary.result.name}: {summary.error}") from summary.error


def _flow_cases(module: Any, backend: str = "vulkan") -> Iterator[Case]:
    for name, function in inspect.getmembers(module, inspect.isfunction):
        if not name.startswith("test_"):
            continue
        for flow, (label, arguments) in itertools.product(_flows(backend), _parameters(function)):
            case = "_".join(filter(None, (name.removeprefix("test_"), flow.name, label)))
            yield Case(_op_of(module), case, _function(function, flow, case, arguments))


def _function(function: Any, flow: Any, name: str, arguments: dict[str, Any]) -> Callable[[], None]:
    return lambda: function(_Runner(flow, name), **arguments)


def _flows(backend: str) -> list[Any]:
    """Return a backend's flows, with the cases that upstream skips for lack of kernels."""
    flows = importlib.import_module(f"{_BACKENDS}.test.suite.flows.{backend}")
    runner = importlib.import_module(f"{_BACKENDS}.test.suite.runner")
    vars(runner)["UNSUPPORTED_PORTABLE_OPS"] = frozenset()
    vars(runner)["_graph_has_unsupported_patterns"] = lambda _program: False
    found = [getattr(flows, f"{name}_TEST_FLOW") for name in _FLOWS[backend]]
    return [dataclasses.replace(flow, is_delegated=False, skip_patterns=[]) for flow in found]


def _parameters(function: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every combination of pytest's parameters, with a name."""
    axes = []
    for mark in getattr(function, "pytestmark", ()):
        if mark.name == "parametrize":
            name, values = mark.args
            ids = mark.kwargs.get("ids") or str
            labels = [ids(v) for v in values] if callable(ids) else list(ids)
            axes.append([(str(label), {name: v}) for label, v in zip(labels, values, strict=True)])
    for chosen in itertools.product(*axes):
        yield (
            "_".join(label for label, _ in chosen),
            {name: value for _, given in chosen for name, value in given.items()},
        )


# Methods of test classes.


def _class_cases(module: Any) -> Iterator[Case]:
    for name, cls in inspect.getmembers(module, inspect.isclass):
        if issubclass(cls, unittest.TestCase) and cls.__module__ == module.__name__:
            for method in unittest.TestLoader().getTestCaseNames(cls):
                label = f"{name}_{method.removeprefix('test_')}"
                yield Case(_op_of(module), label, _method(cls, method))


def _method(cls: Any, name: str) -> Callable[[], None]:
    def run() -> None:
        test = cls(name)
        body = getattr(cls, name)
        # A test that is disabled for upstream's runtime still lowers a program.
        setattr(test, name, getattr(body, "__wrapped__", body).__get__(test))
        result = unittest.TestResult()
        test.run(result)
        for _, message in (*result.errors, *result.failures, *result.skipped):
            raise RefusedError(message.strip().splitlines()[-1])

    return run


def _lowering(generator: Any, suite: Any, case: Any) -> Callable[[], None]:
    def run() -> None:
        """Call the program with the case's own inputs; the export may have used larger inputs."""
        _, inputs, program = generator.export_case(suite, case)
        runtime = importlib.import_module("executorch.extension.pybindings.portable_lib")
        runtime._load_for_executorch_from_buffer(program.buffer).forward(inputs)

    return run


def import_torchvision() -> Any:
    """Import torchvision even if its compiled operators were built for another torch.

    The tests' models do not need these operators, but the import needs their declarations, which
    last as long as the returned object.
    """
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for _ in range(20):
        try:
            importlib.import_module("torchvision")
            return library
        except RuntimeError as error:
            missing = re.search(r"operator torchvision::(\w+) does not exist", str(error))
            if missing is None:
                raise
            library.define(f"{missing[1]}(Tensor x) -> Tensor")
            for name in [n for n in sys.modules if n.partition(".")[0] == "torchvision"]:
                del sys.modules[name]
    raise ExportError("torchvision cannot be imported: too many of its operators are missing")


def leave_weights_random() -> None:
    """Keep the tests' models from downloading trained weights, before the tests are imported.

    Random weights give zeros, or numbers too small to compare: heads begin with zeros, and norms of
    a batch with a variance of 1. So both get random numbers.
    """
    import torch

    weights = importlib.import_module("torchvision.models").WeightsEnum

    class Absent(dict[str, Any]):
        """Weights that are not loaded."""

    load = torch.nn.Module.load_state_dict

    def load_state_dict(module: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(state, Absent):
            return draw_zeros(module)
        return load(module, state, *args, **kwargs)

    torch.nn.Module.load_state_dict = load_state_dict
    weights.get_state_dict = lambda *_args, **_kwargs: Absent()


def draw_zeros(model: Any) -> None:
    """Draw matrices of zeros of a model of pictures, and set its batch norms by a random batch."""
    import torch

    with torch.no_grad():
        for weights in model.parameters():
            if weights.dim() > 1 and not weights.any():
                weights.normal_(0, 0.02)
        norms = [one for one in model.modules() if isinstance(one, torch.nn.BatchNorm2d)]
        before = [norm.momentum for norm in norms]
        was_training = model.training
        for norm in norms:
            norm.momentum = 1.0
        if norms:
            model.train()
            model(torch.randn(2, 3, 299, 299))  # a size that all networks with such norms take
            model.train(was_training)
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum
