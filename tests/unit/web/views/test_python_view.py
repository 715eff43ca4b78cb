"""The Python view: cells run with the open program at hand; code fits the open program."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pytest

from page.app import App
from page.shared.inputs.inputs import TensorInput
from page.shared.npy import write_npy
from page.views.python.code import _value
from support.page.chat_page import CONFIG, TOKENIZER, open_chat
from support.page.fake_page import GPU, Engine, FakeBrowser, File, drive, open_sample, run


def result(browser: FakeBrowser) -> str:
    found = re.search(
        r'class="python-result"[^>]*>(.*?)(?:<details|</section>)',
        browser.html["view-python"],
        re.S,
    )
    assert found is not None
    return unescape(re.sub("<[^>]*>", " ", found[1]))


async def cell(app: App, source: str) -> None:
    await app.receive({"act": "python:run", "fields": {"source": source}})


async def look(app: App) -> None:
    await app.receive({"act": "view", "name": "python"})


def test_a_cell_has_the_program_its_inputs_and_results() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await run(app)
        await look(app)
        await cell(
            app,
            "y = await program.run(method, *inputs)\nprint(np.allclose(y[0], outputs[0]))\ny[0]",
        )
        assert result(browser).split()[:3] == ["True", "float32", "37"]
        assert "<table" in browser.html["view-python"]
        assert browser.text["status"] == "Done"
        await cell(app, "y[0].shape")
        assert "(37, 41)" in result(browser)
        await cell(app, "np.sin(np.arange(100.0))")
        assert "Curve of 100 values" in browser.html["view-python"]

    drive(script)


def test_errors_are_typed_and_of_the_cell_alone() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        await cell(app, "print(1)\nawait program.run(method, 3)")
        shown = result(browser)
        assert shown.lstrip().startswith("1")
        assert "InputError" in shown
        assert 'File "<cell>", line 2' in shown
        assert "console.py" not in shown
        assert browser.text["status"] == "The code failed"
        await cell(app, "1 +")
        assert "SyntaxError" in result(browser)
        await cell(app, "raise SystemExit")
        assert "SystemExit" in result(browser)
        await cell(app, "'<script>' + 'x'")
        assert "<script>" not in browser.html["view-python"]
        assert "'<script>x'" in result(browser)
        assert not browser.html.get("error")

    drive(script)


def test_names_of_one_program_are_gone_with_it() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        await cell(app, "kept = 1")
        await open_sample(app, "sigmoid.pte")
        await cell(app, "kept")
        assert "NameError" in result(browser)

    drive(script)


def test_a_language_model_is_chatted_with() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_chat(app, TOKENIZER, CONFIG)
        await look(app)
        code = unescape(browser.html["view-python"])
        assert "webpte.llm.Chat(program, tokenizer)" in code
        assert "random" not in code
        await cell(app, "program")
        assert not browser.html.get("error")

    drive(script)


def test_the_code_of_the_session_runs_in_the_console_if_it_reads_no_files() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app)
        await look(app)
        assert 'data-act="python:try"' in browser.html["view-python"]
        await app.receive({"act": "python:try"})
        code = browser.other["value"]["python-cell"]
        assert code.startswith("import ")
        assert code in unescape(browser.html["view-python"])
        assert browser.other["reveal"] == "python-cell"
        values = write_npy(np.zeros((37, 41), np.float32))
        await app.receive({"act": "npy", "input": "0", "files": [File("x.npy", values)]})
        assert "np.load(" in unescape(browser.html["view-python"])
        assert 'data-act="python:try"' not in browser.html["view-python"]

    drive(script)


def test_an_interrupted_cell_is_cancelled_not_failed() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        source = "print('so far')\nmay_be = browser.interrupts\nraise KeyboardInterrupt"
        console = app._views.panel("python")._console  # type: ignore[union-attr]
        console._names["browser"] = browser
        await cell(app, source)
        assert result(browser).split() == ["so", "far", "Cancelled."]
        assert browser.text["status"] == "Cancelled"
        assert console._names["may_be"] is True, "a cell may be interrupted"
        assert browser.interrupts is False, "and nothing else"

    drive(script)


def test_the_note_below_the_code_says_where_it_runs() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        told = unescape(re.sub("<[^>]*>", "", browser.html["view-python"]))
        on_numpy = app._state.session is not None and app._state.session.device == "numpy"
        assert ('device="numpy")' in told) is on_numpy
        assert ("on NumPy. For WebGPU, omit" in told) is on_numpy
        assert ("on WebGPU. In CPython, add" in told) is not on_numpy

    drive(script)
    drive(script, adapter=GPU, engine=Engine())


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("fill", ["normal", "integers", "range", "ramp", "zeros", "ones"])
def test_code_makes_the_same_values_and_names_a_dtype_once(fill: str, dtype: str) -> None:
    state = TensorInput(0, "x", dtype, ((3, 3), (5, 5)))
    if fill not in state.fills:
        with pytest.raises(ValueError, match="is not a fill"):
            state.set_fill(fill)
        return
    state.set_fill(fill)
    code = _value(state)
    made = eval(code, {"np": np})
    assert made.dtype == dtype
    np.testing.assert_array_equal(made, state.array())
    assert len(re.findall(rf"'{dtype}'|np\.{dtype}\b", code)) <= 1


def test_earlier_cells_stay_with_their_results() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        await cell(app, "first = 40 + 2\nfirst")
        await cell(app, "print('<b>')\n1 / 0")
        html = browser.html["view-python"]
        assert "Earlier cells (1)" in html
        newest, _, earlier = html.partition("Earlier cells")
        assert "ZeroDivisionError" in newest
        assert "first = 40 + 2" in earlier
        assert "42" in earlier
        assert "<b>" not in html
        assert browser.other["script"]["python"]["history"] == [
            "first = 40 + 2\nfirst",
            "print('<b>')\n1 / 0",
        ]
        for number in range(30):
            await cell(app, f"{number}")
        assert len(browser.other["script"]["python"]["history"]) == 20
        await app.receive({"act": "close"})
        await open_sample(app, "add.pte")
        await look(app)
        assert "Earlier cells" not in browser.html["view-python"]

    drive(script)


def test_names_and_attributes_are_completed() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await open_sample(app, "add.pte")
        await look(app)
        await cell(app, "something, somewhere = 1, 2")

        async def complete(text: str) -> str:
            await app.receive({"act": "python:complete", "text": text})
            told = browser.other["script"]["python"]["completed"]
            assert told["text"] == text
            return str(told["more"])

        assert await complete("x = somet") == "hing"
        assert await complete("some") == ""
        assert browser.html["python-options"].split() == ["something", "somewhere"]
        assert await complete("np.broadcast_sh") == "apes"
        assert await complete("program.no_such_na") == ""
        assert await complete("3 + ") == ""
        assert browser.html["python-options"] == ""

    drive(script)
