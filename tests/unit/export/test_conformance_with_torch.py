"""The driver of ExecuTorch's tests, on a checkout of five. It needs the export environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from webpte_host.base.layout import PYSRC
from webpte_host.commands.verify import run_here

pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

TESTS = """
import time, unittest
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

def lowered(model, *inputs, **options):
    exported = torch.export.export(model, inputs, **options)
    return to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()]).to_executorch()

class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return torch.log(x) + self.total, x.argmax(1)

class Filling(torch.nn.Module):
    def forward(self, total, x, scale: float):
        total.mul_(x * scale)
        return total.sum(1)

class TestFive(unittest.TestCase):
    @unittest.skip("for another runtime")
    def test_runs(self):
        x = torch.randn(4, 3)
        rows = {0: torch.export.Dim("rows", max=4)}
        program = lowered(Counting(), x, dynamic_shapes=(rows,))
        module = _load_for_executorch_from_buffer(program.buffer)
        for rows in (4, 2):
            self.assertEqual(module.run_method("forward", (x[:rows],))[0].shape, (rows, 3))

    def test_lowers_twice(self):
        for scale in (1, 2):
            lowered(torch.nn.Linear(4, 3), torch.randn(scale, 4) * 100)

    def test_changes_an_input(self):
        lowered(Filling(), torch.ones(3, 4), torch.randn(3, 1), 0.5)

    def test_raises(self):
        raise ValueError("no such model")

    def test_hangs(self):
        time.sleep(600)
"""


XNNPACK_TESTS = """
import unittest
import torch
from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.passes.external_constants_pass import delegate_external_constants_pass_unlifted
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer

class Sine(torch.nn.Module):
    def forward(self, x):
        return torch.sin(x)

class Powers(torch.nn.Module):
    def forward(self, x):
        return torch.exp(x), torch.sqrt(x)

def results(partitioner, *rows):
    x = torch.randn(4, 3)
    dynamic = ({0: torch.export.Dim("rows", max=4)},)
    exported = torch.export.export(Sine(), (x,), dynamic_shapes=dynamic)
    program = to_edge_transform_and_lower(exported, partitioner=[partitioner]).to_executorch()
    module = _load_for_executorch_from_buffer(program.buffer)
    return [module.run_method("forward", (x[:row],))[0] for row in rows]

class TestThree(unittest.TestCase):
    def test_delegated(self):
        first, second = results(XnnpackPartitioner(), 4, 2)
        self.assertTrue(torch.equal(first[:2], second))

    def test_not_a_number(self):
        x = torch.tensor([float("nan"), 1.0, float("inf")])
        exported = torch.export.export(Powers(), (x,))
        program = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
        _load_for_executorch_from_buffer(program.to_executorch().buffer).run_method("forward", (x,))

    def test_for_another_backend(self):
        results(VulkanPartitioner(), 4)

    def test_weights_in_another_file(self):
        x = torch.randn(2, 64)
        model = torch.export.export(torch.nn.Linear(64, 64), (x,)).module()
        delegate_external_constants_pass_unlifted(module=model, gen_tag_fn=lambda _node: "weights")
        exported = torch.export.export(model, (x,))
        to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()]).to_executorch()
"""


def captured(tmp_path_factory: pytest.TempPathFactory, folder: str, tests: str, part: str) -> Path:
    """Capture the tests of a module in a checkout that has nothing else."""
    checkout, out = tmp_path_factory.mktemp("checkout"), tmp_path_factory.mktemp("out")
    place = checkout / "backends" / folder
    place.mkdir(parents=True)
    (place / "test_five.py").write_text(tests, encoding="utf-8")
    command = [sys.executable, "-m", "webpte_export.conformance", str(checkout), str(out)]
    command += ["--part", part, "--seconds", "60", "--jobs", "2"]
    variables = {**os.environ, "PYTHONPATH": str(PYSRC)}
    subprocess.run(command, env=variables, check=True)
    return out / part


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory, "webgpu/test/ops", TESTS, "webgpu_ops")


@pytest.fixture(scope="module")
def xnnpack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captured(tmp_path_factory, "xnnpack/test/ops", XNNPACK_TESTS, "xnnpack_ops")


def manifest(out: Path) -> dict[str, Any]:
    entries = json.loads((out / "manifest.json").read_text("utf-8"))
    return {entry["case"]: entry for entry in entries}


def test_programs_are_caught_with_what_pytorch_gives(out: Path) -> None:
    entries = manifest(out)
    names = ("runs", "lowers_twice", "lowers_twice_1", "changes_an_input")
    assert entries.keys() == {f"TestFive_{name}" for name in names}
    for entry in entries.values():
        assert run_here(out, entry)["error"] is None


def test_calls_are_steps_of_a_program_that_keeps_its_state(out: Path) -> None:
    first, second = manifest(out)["TestFive_runs"]["steps"]
    assert (first["inputs"][0]["shape"], second["inputs"][0]["shape"]) == ([4, 3], [2, 3])
    assert [golden["dtype"] for golden in first["goldens"]] == ["float32", "int64"]


def test_an_input_that_is_changed_is_an_output(out: Path) -> None:
    (step,) = manifest(out)["TestFive_changes_an_input"]["steps"]
    assert [golden["shape"] for golden in step["goldens"]] == [[3, 4], [3]]
    assert [given.get("scalar", False) for given in step["inputs"]] == [False, False, True]


def test_what_is_refused_has_its_reason(out: Path) -> None:
    refused = json.loads((out / "refused.json").read_text("utf-8"))
    assert {row["case"]: row["why"] for row in refused} == {
        "five__TestFive_raises": "RefusedError: ValueError: no such model",
        "five__TestFive_hangs": "took longer than 60 s",
    }


def test_the_runtime_gives_the_outputs_where_it_has_the_backend(xnnpack: Path) -> None:
    entry = manifest(xnnpack)["TestThree_delegated"]
    assert entry["expected_from"] == "ExecuTorch"
    for step, rows in zip(entry["steps"], (4, 2), strict=True):
        (given,), (golden,) = step["inputs"], step["goldens"]
        x, y = (np.fromfile(xnnpack / file["path"], "float32") for file in (given, golden))
        assert (len(x), len(y)) == (3 * rows, 3 * rows)
        np.testing.assert_allclose(y, np.sin(x), atol=1e-5)
    assert 0 <= entry.get("difference", 0) < 1e-5


def test_pytorch_gives_what_is_nan_in_either(xnnpack: Path) -> None:
    entry = manifest(xnnpack)["TestThree_not_a_number"]
    for golden, wanted in zip(entry["steps"][0]["goldens"], (np.exp, np.sqrt), strict=True):
        y = np.fromfile(xnnpack / golden["path"], "float32")
        np.testing.assert_allclose(y, wanted([np.nan, 1, np.inf]), rtol=1e-5)
    assert run_here(xnnpack, entry)["error"] is None


def test_pytorch_gives_the_outputs_where_the_runtime_cannot(xnnpack: Path) -> None:
    entry = manifest(xnnpack)["TestThree_for_another_backend"]
    assert entry["expected_from"] == "PyTorch"
    assert entry["runtime"].startswith("RuntimeError: ")
    assert run_here(xnnpack, entry)["error"] is None


def test_programs_with_weights_in_another_file_are_refused(xnnpack: Path) -> None:
    refused = json.loads((xnnpack / "refused.json").read_text("utf-8"))
    assert {row["case"]: row["why"] for row in refused} == {
        "five__TestThree_weights_in_another_file": "RefusedError: "
        "webpte_export.errors.ExportError: the program has its weights in a file of their own"
    }


def test_networks_without_weights_have_outputs_to_compare() -> None:
    """A head of zeros, and norms that make numbers ever smaller, are drawn anew."""
    import torch

    from webpte_export.conformance.parts import draw_zeros

    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 4, 3, stride=8), torch.nn.BatchNorm2d(4)]
    head = torch.nn.Linear(4, 5)
    torch.nn.init.zeros_(head.weight)
    pooled = (torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
    model = torch.nn.Sequential(*layers, torch.nn.ReLU(), *pooled, head).eval()
    with torch.no_grad():
        layers[0].weight.mul_(0.05)
    draw_zeros(model)
    assert not model.training
    assert layers[1].momentum == 0.1
    with torch.no_grad():
        (found,) = model(torch.randn(1, 3, 32, 32))
    assert (found - head.bias).abs().max() > 1e-3
