"""`serve.py bench --pipelines`: the kernels that it finds, its output and its file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from webpte_host.base.errors import HostError
from webpte_host.base.write_results import write_results
from webpte_host.commands import bench, pipelines

ROWS = [
    {"label": "conv_simple", "code": "a\nb\n", "bindings": ["read"], "overrides": [["TAPS", 3]]}
    | {"ms": 12.5, "lines": 2},
    {"label": "unary", "code": "a\n", "bindings": [], "overrides": [], "ms": 0.5, "lines": 1},
]
FIGURES = {"adapter": "google swiftshader", "software_kernels": True, "pipelines": ROWS}


def kernels(path: Path, software: bool, pattern: str | None = None) -> set[str]:
    found = pipelines.collect(path, software, (), pattern)
    assert len(found) == len(set(found))
    return {spec.label.split()[0] for spec in found}


def test_the_kernels_of_a_program(root: Path) -> None:
    program = root / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
    on_gpu, in_software = kernels(program, software=False), kernels(program, software=True)
    assert "linear_q4" in on_gpu
    assert "linear_q4_simple" in in_software
    assert not {"linear_q4", "linear_q4_skinny", "attention_flash", "matmul"} & in_software


def test_a_suite_at_the_shapes_of_its_steps(tmp_path: Path, root: Path) -> None:
    """The first and the second step of a decoder differ in their number of tokens."""
    program = (root / "tests" / "data" / "llm" / "llama_tiny_q4.pte").read_bytes()
    (tmp_path / "llama.pte").write_bytes(program)
    steps = []
    for tokens in (5, 1):
        name, position = f"tokens{tokens}.bin", f"position{tokens}.bin"
        (tmp_path / name).write_bytes(bytes(8 * tokens))
        (tmp_path / position).write_bytes(bytes(8))
        inputs = [
            {"path": name, "shape": [1, tokens], "dtype": "int64"},
            {"path": position, "shape": [1], "dtype": "int64"},
        ]
        golden = {"path": "never_read.bin", "shape": [1], "dtype": "float32"}
        steps.append({"inputs": inputs, "goldens": [golden]})
    entry = {"op": "llama", "case": "tiny", "pte": "llama.pte", "atol": 0, "rtol": 0}
    (tmp_path / "manifest.json").write_text(json.dumps([entry | {"steps": steps}]))
    assert {"linear_q4", "linear_q4_skinny"} <= kernels(tmp_path, software=False)
    with pytest.raises(HostError, match="no case matches"):
        kernels(tmp_path, software=False, pattern="other*")


def test_slowest_first_with_a_sum(capsys: pytest.CaptureFixture[str]) -> None:
    pipelines.show(FIGURES)
    out = capsys.readouterr().out
    assert "kernels for a software adapter" in out
    assert "12.5      2  conv_simple  TAPS=3" in out
    assert out.index("conv_simple") < out.index("unary")
    assert "2 pipelines, 13 ms in all" in out


def test_what_is_kept_can_be_compiled_again(tmp_path: Path) -> None:
    write_results(tmp_path / "kept.json", FIGURES)
    assert json.loads((tmp_path / "kept.json").read_text()) == FIGURES
    with pytest.raises(HostError, match="cannot be written"):
        write_results(tmp_path / "none" / "kept.json", FIGURES)


def test_a_folder_needs_pipelines(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is not a file"):
        bench.main([str(tmp_path)])
