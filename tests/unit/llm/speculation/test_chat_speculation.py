"""Chats that guess tokens: the same texts, also where a stop text cuts an answer in a round."""

from __future__ import annotations

import pytest

import webpte
from support.graphs.graphs import wait
from support.page.chats import Q4, open_chat, pieces_of
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.llm import decode_loop as decode
from webpte.llm.speculation_times import SpeculationTimes


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make batches and rounds independent of the machine's speed: rounds always pay."""
    monkeypatch.setattr(decode, "BATCH_SECONDS", 1e6)
    monkeypatch.setattr(SpeculationTimes, "loss", None)


def test_the_texts_are_the_same() -> None:
    async def run() -> None:
        plain, guessing = await open_chat(SimulatedDevice()), await open_chat(SimulatedDevice())
        draft = await webpte.load(Q4, device=SimulatedDevice())
        wanted = await plain.send("Hello there", 24)
        stop = [wanted[9:11]]
        cut = wanted.index(stop[0])
        first = guessing.send("Hello there", 24, stop=stop, speculate=draft)
        assert await first == wanted[:cut]
        assert first.ended == "stop"
        assert first.stats.accepted_tokens > 0
        again = guessing.regenerate(stop=())
        assert await again == wanted
        broken = guessing.send("And then?", 24, speculate=draft, temperature=0.9, seed=4)
        said = "".join(await pieces_of(broken, 5))
        last = guessing.send("Why?", 12, speculate="lookup")
        text = await last
        # The same conversation without guesses, in which the same answers were broken off.
        asked = plain.send("And then?", 24, temperature=0.9, seed=4)
        assert "".join(await pieces_of(asked, 5)) == said
        assert await plain.send("Why?", 12) == text
        assert plain.messages == guessing.messages

    wait(run())


def test_choices_turn_it_off() -> None:
    async def run() -> None:
        chat = await open_chat(SimulatedDevice())
        reply = chat.send("Sure?", choices=["yes", "no"], speculate="lookup")
        assert await reply in ("yes", "no")
        assert "depends on the one before" in str(reply.stats.not_speculating)

    wait(run())
