"""Inputs that the page keeps from visit to visit belong to a program, not to its name."""

from __future__ import annotations

import numpy as np
import pytest

from page.app import App
from page.core import saved_inputs
from page.core.engine import PageEngine
from page.shared.inputs.inputs import TensorInput
from support.page.fake_page import FakeBrowser, File, drive, drop
from support.write.pte_writer import GraphWriter, write_pte
from webpte.errors import SourceError


def adding(value: float) -> File:
    """Return a program that adds a constant."""
    g = GraphWriter()
    x = g.tensor((3,))
    constant = g.tensor((3,), constant=np.full(3, value, np.float32))
    g.inputs(x)
    g.outputs(g.op("aten.add.Tensor", x, constant, g.int(1), g.tensor((3,))))
    return File("net.pte", write_pte(g))


ONE, TWO = adding(1), adding(2)
UNSET = 1  # the seed of an input that nobody has set


async def set_seed(app: App, browser: FakeBrowser) -> dict[str, str]:
    """Open a program and set its input; return the entry that the browser keeps then."""
    await drop(app, ONE)
    await app.receive({"act": "seed", "input": "0", "value": "12"})
    return {browser.other["store"]["key"]: browser.other["store"]["text"]}


async def seed_after(app: App, file: File) -> int:
    """Return the seed of the input of a program that is opened."""
    await drop(app, file)
    session = app._state.session
    assert session is not None
    (one,) = session.inputs
    assert isinstance(one, TensorInput)
    await app.receive({"act": "close"})
    return one.seed


def test_programs_of_one_name_and_size_have_their_own() -> None:
    assert len(ONE.data) == len(TWO.data)

    async def script(app: App, browser: FakeBrowser) -> None:
        kept = await set_seed(app, browser)
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": kept})
        assert [await seed_after(again, file) for file in (ONE, TWO)] == [12, UNSET]

    drive(script)


def test_those_that_were_kept_by_name_and_size_are_read() -> None:
    """Earlier versions of the page kept them so."""

    async def script(app: App, browser: FakeBrowser) -> None:
        (text,) = (await set_seed(app, browser)).values()
        again = App(browser, PageEngine())
        await again.receive({"act": "hello", "stored": {f"net.pte:{len(ONE.data)}": text}})
        assert await seed_after(again, ONE) == 12
        assert await seed_after(again, ONE) == 12
        assert await seed_after(again, TWO) == UNSET
        await drop(again, ONE)
        await again.receive({"act": "reset-inputs"})
        await again.receive({"act": "close"})
        assert await seed_after(again, ONE) == UNSET  # the old ones do not come back

    drive(script)


def test_a_program_whose_weights_cannot_be_read_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_program: object) -> str:
        raise SourceError("net.pte: the network is gone")

    monkeypatch.setattr(saved_inputs, "fingerprint_of", fail)

    async def script(app: App, browser: FakeBrowser) -> None:
        assert list(await set_seed(app, browser)) == [f"net.pte:{len(ONE.data)}"]
        assert browser.html["error"] == ""

    drive(script)
