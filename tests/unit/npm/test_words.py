"""Errors in the words of JavaScript, and values that the JavaScript half itself refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npm.inputs import method_inputs
from npm.values import FlatArray
from support.graphs.graphs import wait
from support.npm.caller import Caller
from webpte import MethodInfo, ScalarInfo, TensorInfo
from webpte.errors import InputError
from webpte_host.base.layout import WEB
from webpte_host.setup.precompile import find_node

X = TensorInfo("x", (2, 3), "float32", dynamic=False)
ANY = TensorInfo("x", (2, 3), "float32", dynamic=True)


def flat(size: int, dtype: str = "float32") -> FlatArray:
    return FlatArray(np.zeros(size, dtype))


def given(value: Any, info: TensorInfo | ScalarInfo = X) -> list[Any]:
    method = MethodInfo("forward", (info,), (), {}, {}, {}, (), is_constant=False)
    return method_inputs("forward", method, value)


@pytest.mark.parametrize(
    ("value", "info", "words"),
    [
        (flat(6), X, "the inputs are an array, one item each: run('forward', [input])"),
        (np.zeros((2, 3), np.float32), X, "run('forward', [input])"),
        ("text", X, "run('forward', [input])"),
        ([[1, 2, 3]], X, "it is a plain array; a Float32Array is needed"),
        ([1.5], X, "it is a number; a Float32Array is needed"),
        ([True], X, "it is a boolean"),
        ([None], X, "it is null"),
        ([{"data": 1}], X, "it is an object"),
        ([flat(6, "float64")], X, "it is a Float64Array; a Float32Array is needed"),
        ([np.zeros((2, 3), np.int64)], X, "it is a BigInt64Array; a Float32Array is needed"),
        ([flat(7)], X, "it has 7 elements; 6 are needed"),
        ([flat(6)], ANY, "give {data, shape}"),
        ([flat(1)], ScalarInfo("n", "int", 0), "input 0 is a plain int, not an array"),
    ],
)
def test_inputs_are_refused_in_the_words_of_javascript(
    value: Any, info: TensorInfo | ScalarInfo, words: str
) -> None:
    with pytest.raises(InputError) as caught:
        given(value, info)
    assert words in str(caught.value)
    assert "np." not in str(caught.value)


def test_inputs_that_a_program_takes() -> None:
    (whole,) = given([flat(6)])
    assert whole.shape == (2, 3)
    (one,) = given([flat(6)], TensorInfo("x", (8,), "float32", dynamic=True))
    assert one.shape == (6,)
    (index,) = given([flat(6, "int32")], TensorInfo("i", (2, 3), "int64", dynamic=False))
    assert index.dtype == np.int32
    half = TensorInfo("x", (2, 3), "bfloat16", dynamic=False)
    assert given([flat(6)], half)[0].dtype == np.float32
    with pytest.raises(InputError, match="it is a Uint16Array; a Float32Array is needed"):
        given([flat(6, "uint16")], half)
    assert given([3], ScalarInfo("n", "int", 0)) == [3]
    assert method_inputs("none", None, [flat(6)])[0].shape == (6,)


def test_advice_is_about_what_was_called(root: Path) -> None:
    sigmoid = str(root / "web" / "samples" / "sigmoid.pte")

    async def run() -> None:
        caller = Caller()
        cuda = await caller.error("load", sigmoid, {"device": "cuda"})
        assert cuda["message"] == "device: 'cuda': there are 'webgpu' and 'numpy'"
        unknown = await caller.error("task", "fly", sigmoid, {})
        assert "there is no task 'fly'" in unknown["message"]
        assert not [one for one in (cuda, unknown) if "advice" in one["details"]]
        program = await caller.call("load", sigmoid, {"device": "numpy"})
        wrong = await caller.error("run", program["handle"], "forward", [1], "array")
        assert wrong["details"]["advice"].startswith("program.methods has")
        gone = {"webpte:gpu": [999, "float32", [37, 41], None]}
        freed = await caller.error("run", program["handle"], "forward", [gone], "array")
        assert freed["message"] == (await caller.error("read", 999))["message"]
        assert (freed["classes"][0], freed["message"]) == (
            "ClosedError",
            "this GpuTensor was destroyed",
        )
        assert freed["details"]["advice"] == "Call what made it again."

    wait(run())


# Makes each tensor, and prints the error that was thrown.
_TENSORS = """
const [values, cases] = process.argv.slice(-2);
const { Tensor, encode } = await import(values);
const told = JSON.parse(cases).map((code) => {
  try {
    new Function("Tensor", "encode", `return ${code}`)(Tensor, encode);
    return null;
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
});
console.log(JSON.stringify(told));
"""
_CASES = {
    "new Tensor(new Float32Array(6), [2, 3])": None,
    "new Tensor(new Uint8Array(2), [2], 'bool')": None,
    "new Tensor(new Uint8ClampedArray(2))": None,
    "new Tensor(new Uint16Array(2), [2], 'float16')": None,
    "new Tensor(new Float32Array(1), [])": None,
    "encode({ data: new Float32Array(6) })": None,
    "new Tensor(new Float32Array(4), [2, 3])": "[2, 3] has 6 elements; the Float32Array has 4",
    "new Tensor(new Float32Array(2), [-1, -2])": "sizes are whole numbers",
    "new Tensor(new Float32Array(2), [2], 'int32')": "not int32, which needs: Int32Array",
    "new Tensor(new Float32Array(2), [2], 'complex64')": 'no tensor has the dtype "complex64"',
    "new Tensor([1, 2])": "a typed array, such as a Float32Array",
    "new Tensor()": "a typed array, such as a Float32Array",
    "encode({ data: new Float32Array(4), shape: [2, 3] })": "has 6 elements",
}


def test_tensors_are_checked_when_they_are_made(tmp_path: Path) -> None:
    node = find_node()
    assert node is not None
    script = tmp_path / "tensors.mjs"
    script.write_text(_TENSORS)
    command = [node, str(script), (WEB / "npm" / "values.js").as_uri(), json.dumps([*_CASES])]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    for (code, words), told in zip(_CASES.items(), json.loads(ended.stdout), strict=True):
        if words is None:
            assert told is None, code
        else:
            assert told.startswith("InputError: "), code
            assert words in told, code


_OUTSIDE = """
const { Runtime } = await import(process.argv[2]);
try { new Runtime(); } catch (error) { console.log(`${error.name}: ${error.message}`); }
"""


def test_without_a_browser_an_error_says_so(tmp_path: Path) -> None:
    package = tmp_path / "npm"
    shutil.copytree(WEB / "npm", package)
    (package / "versions.js").write_text('export const PYODIDE = "0";\n')
    (package / "package.json").write_text('{"type": "module"}')
    node = find_node()
    assert node is not None
    script = tmp_path / "outside.mjs"
    script.write_text(_OUTSIDE)
    command = [node, str(script), (package / "runtime.js").as_uri()]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert told.startswith("StartError: Python starts in a worker of a browser")
