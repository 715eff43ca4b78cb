"""The session in other languages than Python, and its compiled folder."""

from __future__ import annotations

import asyncio
import io
import json
import re
import shlex
import subprocess
import zipfile
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.shared.cards.cards import read_card
from page.shared.inputs.inputs import ScalarInput, TensorInput
from page.shared.npy import write_npy
from page.views.python.javascript import _READ, _value
from support.page.chat_page import CONFIG, TOKENIZER, open_chat
from support.page.fake_page import FakeBrowser, File, drive, drop, open_sample
from support.page.session_code import CHAT, session_code
from support.write.pte_writer import GraphWriter, write_pte
from webpte import compiling
from webpte.compiling import write_zip
from webpte.errors import UnsupportedError
from webpte_host.base.layout import WEB
from webpte_host.setup.precompile import find_node
from webpte_serve.openai.requests import chat_request, embedding_request

SAMPLES = WEB / "samples"
DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "int8", "bool")
FILLS = ("normal", "integers", "range", "ramp", "zeros", "ones", "typed")

# Evaluates the code of values, and prints the bytes of each.
EVALUATE = """
import { readFileSync } from "node:fs";
const [given, folder] = process.argv.slice(2);
globalThis.fetch = async (name) => {
  const bytes = readFileSync(`${folder}/${name}`);
  return { ok: true, arrayBuffer: async () => Uint8Array.from(bytes).buffer };
};
class Tensor {
  constructor(data, shape, dtype) { Object.assign(this, { data, shape, dtype }); }
}
const READ
const found = [];
const AsyncFunction = (async () => {}).constructor;
for (const [folderOf, code] of JSON.parse(readFileSync(given, "utf8"))) {
  const run = new AsyncFunction("values", "Tensor", `return ${code};`);
  const own = (file, Kind) => values(`${folderOf}/${file}`, Kind);
  const { data, shape, dtype } = await run(own, Tensor);
  const hex = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("hex");
  found.push([data.constructor.name, hex, shape, dtype]);
}
console.log(JSON.stringify(found));
"""


def body_of(code: str) -> tuple[str, dict[str, Any]]:
    """Return the address and the body of a request with curl."""
    _, request = code.split("\n\n")
    words = shlex.split(request.replace("\\\n", " "))
    assert words[0] == "curl"
    assert "Content-Type: application/json" in words
    return next(one for one in words if one.startswith("http")), json.loads(words[-1])


def test_requests_are_those_that_the_server_takes() -> None:
    address, body = body_of(session_code(CHAT, "curl")[0])
    assert address.endswith("/v1/chat/completions")
    request = chat_request(body)
    assert request.model == "llama_tiny_q4"
    assert request.decoding.stream
    address, body = body_of(session_code("words.pte", "curl")[0])
    assert address.endswith("/v1/embeddings")
    assert embedding_request(body).model == "words"


def states() -> list[TensorInput]:
    found = []
    for dtype in DTYPES:
        for fill in FILLS:
            for shape in ((3, 5), (7, 11)):
                state = TensorInput(0, "x", dtype, tuple((size, size) for size in shape))
                if fill not in state.fills:
                    continue
                state.set_fill(fill)
                if fill == "typed":
                    state.set_text("1")
                found.append(state)
    return found


def test_values_are_those_of_the_page(tmp_path: Path) -> None:
    node, rows, wanted = find_node(), [], states()
    assert node is not None
    for number, state in enumerate(wanted):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "input0.npy").write_bytes(write_npy(state.array()))
        rows.append((str(number), _value(state, "Tensor")))
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    script = tmp_path / "evaluate.mjs"
    script.write_text(EVALUATE.replace("const READ", _READ))
    command = [node, str(script), str(tmp_path / "rows.json"), str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    kinds = set()
    for state, (kind, data, shape, dtype) in zip(wanted, json.loads(ended.stdout), strict=True):
        array = state.array()
        kinds.add((array.dtype.name, kind))
        assert tuple(shape) == array.shape
        assert dtype in (None, array.dtype.name)
        found = np.frombuffer(bytes.fromhex(data), array.dtype).reshape(array.shape)
        np.testing.assert_array_equal(found, array, err_msg=f"{state.dtype} {state.fill}")
    assert ("bool", "Uint8Array") in kinds
    assert ("float16", "Uint16Array") in kinds


@pytest.mark.parametrize(
    ("value", "written"),
    [(3, "3"), (1 << 60, f"{1 << 60}n"), (-np.inf, "-Infinity"), (np.nan, "NaN"), (True, "true")],
)
def test_numbers(value: Any, written: str) -> None:
    state = ScalarInput(0, "x", type(value).__name__, value)
    assert _value(state, "Tensor") == written


def test_tabs_show_and_copy_each_language() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await app.receive({"act": "view", "name": "python"})
        shown = browser.html["view-python"]
        labels = re.findall(r'data-act="python:language"[^>]*>([^<]+)<', shown)
        assert labels == ["Python", "JavaScript", "Compiled"]
        await app.receive({"act": "python:language", "value": "javascript"})
        shown = unescape(browser.html["view-python"])
        assert 'from "webpte"' in shown
        assert "Run here" not in shown
        await app.receive({"act": "python:copy", "value": "javascript"})
        assert browser.other["copy"]["text"].startswith("import * as webpte")
        await app.receive({"act": "python:copy"})
        assert browser.other["copy"]["text"].startswith("import numpy")
        await app.receive({"act": "python:language", "value": "cobol"})
        assert 'from "webpte"' in unescape(browser.html["view-python"])

    drive(script)


def test_a_language_model_has_all_languages() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await app.receive({"act": "view", "name": "python"})
        for language, part in (
            ("javascript", "webpte.openai("),
            ("compiled", "program.generate("),
            ("curl", "/v1/chat/completions"),
        ):
            await app.receive({"act": "python:language", "value": language})
            assert part in unescape(browser.html["view-python"])
        # Another program without a server's endpoint: back to Python.
        await open_sample(app, "add.pte")
        assert "import numpy" in unescape(browser.html["view-python"])

    drive(script)


def test_the_compiled_folder_is_saved_as_an_archive(tmp_path: Path) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await app.receive({"act": "view", "name": "python"})
        await app.receive({"act": "python:language", "value": "compiled"})
        await app.receive({"act": "python:compile"})
        assert browser.other["download"]["name"] == "add.zip"
        assert browser.text["status"] == "add.zip saved"
        with zipfile.ZipFile(io.BytesIO(browser.links[-1])) as archive:
            assert archive.testzip() is None
            names = set(archive.namelist())
            program = json.loads(archive.read("add/program.json"))
        assert {"add/index.js", "add/webpte-run.js", "add/devices.json"} <= names
        assert list(program["methods"]) == ["forward"]

    drive(script)


def test_the_folder_of_a_card_has_its_task() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "digits.pte")
        session = app._state.session
        assert session is not None
        raw = json.loads((SAMPLES / "digits.json").read_text("utf-8"))
        card = read_card({**raw, "name": "digits"})
        object.__setattr__(session.source, "card", card)
        await app.receive({"act": "view", "name": "python"})
        await app.receive({"act": "python:compile"})
        with zipfile.ZipFile(io.BytesIO(browser.links[-1])) as archive:
            program = json.loads(archive.read("digits/program.json"))
            assert "digits/index.html" in archive.namelist()
        assert program["task"]["input"]["kind"] == "drawing"

    drive(script)


def test_what_cannot_be_compiled_is_named() -> None:
    g = GraphWriter()
    x, y = g.tensor((3,)), g.tensor((3,))
    g.op("aten.no_such.default", x, y)
    g.inputs(x)
    g.outputs(y)
    data = write_pte(g)

    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await app.receive({"act": "view", "name": "python"})
        session = app._state.session
        assert session is not None
        object.__setattr__(session.source, "data", data)
        await app.receive({"act": "python:compile"})
        assert "aten.no_such" in unescape(browser.html["error"])
        assert "download" not in browser.other

    drive(script)


def test_compiling_is_cancelled() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "digits.pte")
        await app.receive({"act": "view", "name": "python"})
        await app.receive({"act": "python:language", "value": "compiled"})
        compiling_ = asyncio.ensure_future(app.receive({"act": "python:compile"}))
        while "Compiling:" not in browser.text["status"]:
            await asyncio.sleep(0)
        assert 'data-act="cancel"' in browser.html["view-python"]
        await app.receive({"act": "cancel"})
        await compiling_
        assert "download" not in browser.other
        await drop(app, File("add.pte", (SAMPLES / "add.pte").read_bytes()))

    drive(script)


def test_a_folder_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_zip, "MOST_BYTES", 10)
    with pytest.raises(UnsupportedError, match=r"at most 10: compile the file with serve\.py"):
        asyncio.run(compiling.compile_zip(SAMPLES / "add.pte", name="add"))


def test_progress_ends_with_all_bytes() -> None:
    told: list[tuple[str, int, int]] = []
    made = asyncio.run(
        compiling.compile_zip(
            SAMPLES / "add.pte", name="add", progress=lambda *given: told.append(given)
        )
    )
    stages = [stage for stage, _, _ in told]
    assert stages == sorted(stages)
    assert told[0][:2] == ("compile", 0)
    assert told[-1][1] == told[-1][2]
    again = asyncio.run(compiling.compile_zip(SAMPLES / "add.pte", name="add"))
    assert again == made
