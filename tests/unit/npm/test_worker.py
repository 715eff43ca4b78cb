"""The Python of the package for npm: calls by messages, as its JavaScript sends them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npm.values import DTYPES, Encoder, decode
from npm.worker import code_of, described
from support.graphs.graphs import wait
from support.harness.task_cases import models_folder
from support.npm.caller import Caller
from support.page.chats import Q4
from webpte import Options
from webpte.errors import InputError, OtherFileError, UnsupportedOpError, WebpteError
from webpte_serve.openai import RequestError


def nothing(_handle: int, _freed: str) -> None:
    """Find no object, as no message of these tests names one."""


Scenario = Callable[[Caller, Any], Coroutine[Any, Any, None]]


def with_program(root: Path, scenario: Scenario, name: str = "web/samples/sigmoid.pte") -> None:
    async def run() -> None:
        caller = Caller()
        program = await caller.call("load", str(root / name), {"device": "numpy"})
        await scenario(caller, program)

    wait(run())


def test_a_flat_array_has_the_shape_of_the_input(root: Path) -> None:
    x = np.linspace(-3, 3, 37 * 41, dtype=np.float32)

    async def scenario(caller: Caller, program: Any) -> None:
        assert program["methods"]["forward"]["inputs"][0]["shape"] == [37, 41]
        given = {"webpte:tensor": [0, "float32", None]}
        (y,) = await caller.call(
            "run", program["handle"], "forward", [given], "array", parts=[x.tobytes()]
        )
        assert y == {"webpte:tensor": [0, "float32", [37, 41]]}
        found = caller.parts[0].view(np.float32)
        np.testing.assert_allclose(found, 1 / (1 + np.exp(-x)), atol=1e-6)

    with_program(root, scenario)


@pytest.mark.parametrize("wanted", [True, False])
def test_prompts_in_integers(wanted: bool) -> None:
    async def run() -> None:
        caller = Caller()
        given = {"device": "numpy", "int8Products": wanted, "maxContext": 32}
        told = await caller.call("load", str(Q4), given)
        opened = caller.worker._calls.find(told["handle"])
        assert opened.options == Options(int8_products=wanted)

    wait(run())


def test_errors_have_a_class_and_a_code(root: Path) -> None:
    async def scenario(caller: Caller, program: Any) -> None:
        handle = program["handle"]
        flat = {"webpte:tensor": [0, "float32", None]}
        whole = {"webpte:tensor": [1, "float32", [37, 41]]}
        for call, kind, words in [
            ((handle, "forward", [flat], "array"), "InputError", "7 elements; 1,517 are needed"),
            ((handle, "none", [], "array"), "InputError", "no method 'none'"),
            ((handle, "forward", [], "array"), "InputError", "1 input"),
            ((handle, "forward", [], "cpu"), "InputError", "'array' and 'gpu'"),
            ((handle, "forward", [whole], "gpu"), "DeviceError", "NumPy"),
            ((999, "forward", [], "array"), "ClosedError", "closed"),
        ]:
            error = await caller.error("run", *call, parts=[bytes(28), bytes(37 * 41 * 4)])
            assert error["classes"][0] == kind
            assert words in error["message"]
        error = await caller.error("load", "model.pte", {"deviec": "numpy"})
        assert (error["classes"][0], error["code"]) == ("InputError", "input")
        assert "there is no option 'deviec'; there are device, " in error["message"]
        assert error["message"].endswith("onProgress, signal")
        assert "advice" not in error["details"]
        assert (await caller.error("fly"))["message"] == "there is no call 'fly'"

    with_program(root, scenario)


def test_closing_twice_and_running_afterwards(root: Path) -> None:
    async def scenario(caller: Caller, program: Any) -> None:
        handle = program["handle"]
        assert await caller.call("close", handle) is None
        assert await caller.call("close", handle) is None
        error = await caller.error("stats", handle)
        assert error["classes"] == ["ClosedError", "WebpteError"]

    with_program(root, scenario)


def test_a_call_is_cancelled_before_it_begins_and_later(root: Path) -> None:
    async def scenario(caller: Caller, program: Any) -> None:
        for turns in range(4):
            number = caller.start(
                "load", str(root / "web/samples/sigmoid.pte"), {"device": "numpy"}
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.worker.cancel(number)
            kind, _ = await caller.end_of(number)
            assert kind in ("cancelled", "result")
            assert kind == "cancelled" or turns > 0
        caller.worker.cancel(number)  # it has ended
        assert await caller.call("stats", program["handle"])

    with_program(root, scenario)


def test_what_a_file_holds_is_metadata(root: Path) -> None:
    async def scenario(_: Caller, program: Any) -> None:
        constant = [info for info in program["methods"].values() if info["isConstant"]]
        assert constant
        assert program["metadata"].keys() == {info["name"] for info in constant}
        assert program["metadata"]["get_vocab_size"] > 0

    with_program(root, scenario, "web/samples/stories.pte")


def test_tasks_refuse_options_that_they_do_not_know() -> None:
    async def run() -> None:
        caller = Caller()
        folder = str(models_folder() / "feelings")
        task = await caller.call("task", "text-classification", folder, {"device": "numpy"})
        ((best,), *_) = (await caller.call("do", task["handle"], ["ok"], {"top_k": 1}),)
        assert best.keys() == {"label", "score"}
        error = await caller.error("do", task["handle"], ["ok"], {"topk": 1})
        assert error["classes"][0] == "InputError"
        assert "topk" in error["message"]
        error = await caller.error("stream", task["handle"], ["ok"], {})
        assert "does not stream" in error["message"]

    wait(run())


def test_further_methods_of_tasks() -> None:
    async def run() -> None:
        caller = Caller()
        opened = await caller.call(
            "task", "retrieval", str(models_folder() / "vectors"), {"device": "numpy"}
        )
        assert opened["calls"] == ["add"]
        assert opened["form"] is None
        handle, document = opened["handle"], {"name": "a.txt", "text": "A fox."}
        (added,) = await caller.call("call", handle, "add", [document], {})
        assert (added["name"], added["sections"][0]["end"]) == ("a.txt", 6)
        (found,) = await caller.call("do", handle, ["fox"], {})
        assert found["document"] == "a.txt"
        for method in ("close", "embed", "_add"):
            refused = await caller.error("call", handle, method, [], {})
            assert f"retrieval has no method '{method}'" in refused["message"]
        unknown = await caller.error("call", handle, "add", [document], {"fast": True})
        assert "retrieval.add" in unknown["message"]
        music = await caller.call(
            "task", "audio-to-midi", str(models_folder() / "music"), {"device": "numpy"}
        )
        file = await caller.call("call", music["handle"], "midi", [[]], {})
        assert file["webpte:tensor"][1] == "uint8"
        assert bytes(caller.parts[0])[:4] == b"MThd"

    wait(run())


def test_a_call_within_a_stream_waits_for_the_end_of_the_stream() -> None:
    """Python reads a stream whether or not JavaScript takes its items: no call waits for ever."""

    async def run() -> None:
        caller = Caller()
        folder = str(models_folder() / "replies")
        opened = await caller.call("task", "text-generation", folder, {"device": "numpy"})
        stream = caller.start("stream", opened["handle"], ["The fox"], {"max_new_tokens": 40})
        while not any(kind == "item" for kind, _ in caller.answers[stream]):
            await asyncio.sleep(0)
        assert caller.answers[stream][-1][0] == "item"
        (within,) = await caller.call("do", opened["handle"], ["A dog"], {"max_new_tokens": 3})
        assert caller.answers[stream][-1][0] == "end"
        (alone,) = await caller.call("do", opened["handle"], ["A dog"], {"max_new_tokens": 3})
        assert within == alone

    wait(run())


def test_a_picture_is_read_once_for_several_prompts() -> None:
    async def run() -> None:
        caller = Caller()
        folder = str(models_folder() / "prompts")
        opened = await caller.call("task", "mask-generation", folder, {"device": "numpy"})
        assert opened["calls"] == ["look"]
        assert opened["form"]["kind"] == "picture"
        assert opened["form"]["points"]
        handle = opened["handle"]
        picture, pixels = {"webpte:tensor": [0, "uint8", [9, 14, 3]]}, bytes(range(189)) * 2
        seen = await caller.call("call", handle, "look", [picture], {}, parts=[pixels])
        at, facts = seen["webpte:held"]
        assert facts == {"height": 9, "width": 14}
        prompt = {"points": [[3, 4]]}
        found = await caller.call("do", handle, [seen], prompt)
        alone = await caller.call("do", handle, [picture], prompt, parts=[pixels])
        assert found["scores"] == alone["scores"]
        both = await caller.call("do", handle, [[seen, picture]], prompt, parts=[pixels])
        assert [one["scores"] for one in both] == [alone["scores"]] * 2
        assert await caller.call("close", at) is None
        closed = await caller.error("do", handle, [seen], prompt)
        assert closed["classes"][0] == "ClosedError"

    wait(run())


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_every_type_cross_both_ways(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    encoder = Encoder(lambda _: 0, False)
    text = encoder.text([array.T])
    (found,) = decode(text, [bytes(part) for part in encoder.parts], nothing)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array.T)


def test_values_that_json_has_not_cross_both_ways() -> None:
    values = [math.nan, math.inf, -math.inf, 1 << 60, -(1 << 53), None, True, "ü", {"a": [1, ()]}]
    encoder = Encoder(lambda _: 0, False)
    found = decode(encoder.text(values), encoder.parts, nothing)
    assert math.isnan(found[0])
    assert found[1:] == [*values[1:8], {"a": [1, []]}]
    assert decode('{"$ref": "x"}', [], nothing) == {"$ref": "x"}


@pytest.mark.parametrize(
    ("tensor", "size", "words"),
    [
        ([0, "float32", [3]], 8, "2 elements have not the shape [3]"),
        ([0, "float32", [-1, -2]], 8, "have not the shape"),
        ([0, "float32", None], 7, "not a whole number of float32"),
        ([0, "complex64", None], 8, "no tensor has the dtype 'complex64'"),
    ],
)
def test_arrays_that_contradict_themselves(tensor: list[Any], size: int, words: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(json.dumps({"webpte:tensor": tensor}), [bytes(size)], nothing)
    assert words in str(caught.value)


def test_details_of_errors() -> None:
    error = described(UnsupportedOpError("m", {"aten.foo": 2}))
    assert error["code"] == "unsupported_op"
    assert error["details"] == {"ops": {"aten.foo": 2}}
    assert described(OtherFileError("a GIF", "open it elsewhere", 0))["details"]["advice"]
    request = described(RequestError("no", "model", 404, "model_not_found"))
    assert (request["code"], request["details"]) == (
        "model_not_found",
        {"param": "model", "status": 404},
    )
    assert request["classes"][:2] == ["RequestError", "InputError"]
    internal = described(ZeroDivisionError("division by zero"))
    assert (internal["classes"], internal["code"]) == (["WebpteError"], "internal")
    assert "ZeroDivisionError" in internal["message"]


def test_codes() -> None:
    assert code_of("OutOfMemoryError") == "out_of_memory"
    assert code_of("NoWebGPUError") == "no_web_gpu"
    assert issubclass(RequestError, WebpteError)
