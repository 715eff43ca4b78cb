"""Cards are read, opened with all their files, and named in the address."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from page.app import App
from page.core.engine import PageEngine
from page.shared.cards.cards import BOXES, CardError, read_card
from page.shared.inputs.inputs import TensorInput
from page.shared.npy import write_npy
from page.shared.outputs.renderers.boxes import FORMS
from support.harness import extent
from support.harness.bounded import bounded_work
from support.harness.mutants import Random, damaged_json, outcomes
from support.page.fake_page import ROOT, FakeBrowser, drive, open_sample, run
from webpte.engine.files.json_reader import parse_json
from webpte_export.all_recipes import all_recipes
from webpte_host.serving.gallery import gallery

WEB = ROOT / "web"
CARDS = json.loads(gallery(WEB, None))
MODEL = {  # as `serve.py models` writes them
    "name": "pitch",
    "title": "CREPE tiny",
    "program": "model.pte",
    "size": 1974144,
    "view": "run",
    "inputs": [{"name": "frames", "meaning": "samples", "rate": 16000}],
    "outputs": [{"name": "pitches", "meaning": "how well each fits", "labels": "labels.txt"}],
    "example": ["example0.npy"],
    "files": [{"name": "model.pte", "bytes": 1974144, "sha256": "ec05"}],
}


def test_cards_of_models_and_of_samples_are_read_alike() -> None:
    card = read_card({**MODEL, "folder": "models/pitch/"})
    assert card.program == "models/pitch/model.pte"
    assert card.examples == ("models/pitch/example0.npy",)
    assert card.outputs[0].labels == "models/pitch/labels.txt"
    files = {"program": "p.pte", "example": "p.npy", "tokenizer": "p.tokenizer.json"}
    labels = {"labels": ["zero", "one"]}
    card = read_card(
        {"name": "p", "folder": "samples/", "files": files, "view": "chat", "outputs": [labels]}
    )
    assert (card.program, card.tokenizer) == ("samples/p.pte", "samples/p.tokenizer.json")
    assert (card.title, card.view, card.examples) == ("p", "chat", ("samples/p.npy",))
    assert (card.outputs[0].names, card.outputs[0].labels) == (("zero", "one"), "")


def test_a_range_is_a_mean_and_a_std() -> None:
    inputs = [{"layout": "NCHW", "range": [-1, 1]}]
    (value,) = read_card({"name": "p", "program": "p.pte", "inputs": inputs}).inputs
    assert (value.mean, value.std) == ((0.5,), (0.5,))


@pytest.mark.parametrize(
    ("card", "told"),
    [
        ({"name": "p"}, "names no program"),
        ({"name": "p", "problem": "p.json cannot be read"}, "cannot be read"),
        ({"name": "p", "program": "p.pte", "inputs": [{"layout": "WCH"}]}, "'WCH' is none of"),
        ({"name": "p", "program": "p.pte", "inputs": [{"mean": ["a"]}]}, "could not convert"),
        ({"name": "p", "program": "p.pte", "inputs": [{"range": [1, 1]}]}, "two numbers that"),
        ({"name": "p", "program": "p.pte", "inputs": [{"range": 255}]}, "two numbers that"),
        ({"name": "p", "program": "p.pte", "inputs": [{"std": [0.2, 0]}]}, "std has a 0"),
        ({"name": "p", "program": "p.pte", "inputs": [{"channels": "GBR"}]}, "'GBR' is none of"),
        ({"name": "p", "program": "p.pte", "inputs": [{"fill": "noise"}]}, "'noise' is none of"),
        ({"name": "p", "program": "p.pte", "inputs": [{"fill": "picture"}]}, "is none of"),
        ({"name": "p", "program": "p.pte", "outputs": [{"boxes": "xxyy"}]}, "'xxyy' is none of"),
        ({"name": "p", "program": "p.pte", "lisence": "MIT"}, "of p .* lisence .* mean licence?"),
        (
            {"name": "p", "files": {"programme": "p.pte"}},
            "programme is not a field .* program,",
        ),
        ({"name": "p", "files": {"program": "p.pte"}, "notes": "."}, "notes is not a field"),
        (
            {"name": "p", "program": "p.pte", "inputs": [{}, {"layuot": "HW"}]},
            r"inputs\[1\].layuot is not a field .* mean inputs\[1\].layout\?",
        ),
        (
            {"name": "p", "program": "p.pte", "outputs": [{"fill": "zeros"}]},
            r"outputs\[0\].fill is not a field .* name, meaning, .* threshold",
        ),
    ],
)
def test_a_card_that_cannot_be_used_says_why(card: dict[str, Any], told: str) -> None:
    with pytest.raises(CardError, match=told):
        read_card(card)


def test_a_card_may_ask_for_all_boxes_that_there_are() -> None:
    assert set(BOXES) == set(FORMS)


def test_cards_that_ship_are_right() -> None:
    assert {"sigmoid", "add", "superres"} <= {card["name"] for card in CARDS}
    for raw in CARDS:
        card = read_card(raw)
        assert (WEB / card.program).read_bytes()[4:8] == b"ET12"
        assert (WEB / card.program).stat().st_size == raw["size"], card.name
        assert raw["licence"]
        assert raw["task"]
        beside = (*card.examples, *(one.labels for one in card.outputs if one.labels))
        picture = str(raw["files"].get("picture", ""))
        beside = (*beside, raw["folder"] + picture if picture else "")
        for file in (*beside, card.tokenizer, card.tokenizer_config):
            assert not file or (WEB / file).is_file(), file


def test_cards_of_models_that_can_be_installed_have_fields_that_the_page_knows() -> None:
    for name, recipe in all_recipes().items():
        values = {
            "inputs": [value.card() for value in recipe.inputs],
            "outputs": [value.card() for value in recipe.outputs],
        }
        assert read_card({**MODEL, "name": name, **values}).outputs


def opened(script: Any, cards: Any = CARDS, **hello: Any) -> FakeBrowser:
    async def with_cards(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "hello", "cards": cards, **hello})
        await script(app, browser)

    return drive(with_cards)


def test_a_card_that_cannot_be_used_says_so_in_its_place() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        (told,) = browser.other["unusable"].items()
        assert told[0] == "leaves"
        assert "tilte is not a field of a card. Did you mean title?" in told[1]
        await app.receive({"act": "card", "name": "leaves"})
        assert "Did you mean title?" in browser.html["error"]

    slip = {"name": "leaves", "folder": "samples/", "tilte": "Leaves", "files": {"program": "l"}}
    opened(script, [*CARDS, slip])


def test_the_address_follows_what_is_open() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "card", "name": "add"})
        assert browser.other["address"] == "?model=add&view=run"
        assert browser.other["opened"] == {"any": True, "card": "add", "opening": False}
        await app.receive({"act": "view", "name": "python"})
        assert browser.other["address"] == "?model=add&view=python"
        await open_sample(app)
        assert browser.other["address"] == "?url=samples/sigmoid.pte&view=python"
        assert browser.other["opened"] == {"any": True, "card": "", "opening": False}
        await app.receive({"act": "close"})
        assert browser.other["address"] == ""
        assert browser.other["opened"] == {"any": False, "card": "", "opening": False}

    opened(script)


def test_a_link_opens_a_model_in_a_view() -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "link", "model": "add", "view": "python"})
        assert browser.text["status"].startswith("add.pte loaded")
        assert browser.other["front"] == "python"
        assert "add.pte" in browser.html["view-python"]
        await app.receive({"act": "link", "url": "samples/sigmoid.pte"})
        assert browser.text["status"].startswith("sigmoid.pte loaded")
        await app.receive({"act": "link", "model": "nothing"})
        assert "there is no model &#x27;nothing&#x27;" in browser.html["error"]

    opened(script)


@pytest.mark.parametrize(
    ("link", "told", "address"),
    [
        ({"model": "nope"}, "There is no model “nope” on this page", "?model=nope"),
        (
            {"url": "no/such.pte", "view": "graph"},
            "such.pte cannot be opened: there is no such file at its address (404)",
            "?url=no/such.pte&view=graph",
        ),
    ],
)
def test_a_link_that_opens_nothing_is_told_and_can_be_tried_again(
    link: dict[str, str], told: str, address: str
) -> None:
    async def script() -> None:
        browser = FakeBrowser()
        browser.asked = asyncio.Event()
        app = App(browser, PageEngine())
        hello = app.receive({"act": "hello"})
        await app.receive({"act": "link", **link})
        browser.asked.set()  # the adapter comes later than the page's address
        await hello
        assert browser.text["status"].startswith(told)
        assert browser.other["mood"] == "bad"
        assert "“link”" not in browser.html["error"]
        assert browser.other["address"] == address
        await open_sample(app)
        assert browser.other["address"].startswith("?url=samples/sigmoid.pte")
        await app.receive({"act": "close"})
        assert browser.other["address"] == ""

    asyncio.run(script())


def test_the_gallery_is_a_line_while_something_is_opened_or_open() -> None:
    seen: list[bool] = []

    async def script(app: App, browser: FakeBrowser) -> None:
        show = browser.show

        def watch(**changes: Any) -> None:
            if "opened" in changes:
                seen.append(changes["opened"]["any"])
            show(**changes)

        browser.show = watch  # type: ignore[method-assign]
        await app.receive({"act": "card", "name": "nothing"})
        assert seen == [False]  # although it was clicked
        await app.receive({"act": "open-url", "fields": {"url": "samples/none.pte"}})
        assert seen[1:] == [True, False]
        await app.receive({"act": "card", "name": "sigmoid"})
        assert set(seen[3:]) == {True}
        await app.receive({"act": "close"})
        assert not seen[-1]

    opened(script)


@pytest.fixture
def scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A card of `sigmoid` with an example, and labels for its 41 columns."""
    monkeypatch.setattr("support.page.fake_page.SAMPLES", tmp_path / "samples")
    folder = tmp_path / "models" / "scores"
    folder.mkdir(parents=True)
    (folder / "model.pte").write_bytes((WEB / "samples" / "sigmoid.pte").read_bytes())
    example = np.zeros((37, 41), np.float32)
    example[:, 7] = 5
    (folder / "example0.npy").write_bytes(write_npy(example))
    (folder / "labels.txt").write_text("".join(f"kind {n}\n" for n in range(41)))
    outputs = [{"name": "scores", "labels": "labels.txt"}]
    more = {"notes": "Notes of it"}
    return {**MODEL, **more, "name": "scores", "folder": "models/scores/", "outputs": outputs}


def test_a_card_brings_its_example_and_labels(scores: dict[str, Any]) -> None:
    async def script(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "card", "name": "scores"})
        assert "from example0.npy" in browser.html["inputs"]
        assert ">frames</span>" in browser.html["inputs"]
        assert ">samples</p>" in browser.html["inputs"]
        assert "Notes of it" in browser.html["file"]
        await run(app)
        assert ">scores<" in browser.html["outputs"]
        assert "kind 7" in browser.html["outputs"]
        await app.receive({"act": "fill", "input": "0", "value": "zeros"})
        await app.receive({"act": "card", "name": "scores"})  # what someone set stays
        assert "from example0.npy" not in browser.html["inputs"]

    opened(script, [scores])


def test_inputs_are_remembered_for_their_program() -> None:
    kept: dict[str, str] = {}

    async def first(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "card", "name": "add"})
        await app.receive({"act": "typed", "input": "1", "value": "0.25"})
        await app.receive({"act": "seed", "input": "0", "value": "12"})
        kept[browser.other["store"]["key"]] = browser.other["store"]["text"]

    async def second(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "card", "name": "add"})
        session = app._state.session
        assert session is not None
        one, other = session.inputs
        assert isinstance(one, TensorInput)
        assert one.seed == 12
        assert (np.asarray(other.array()) == 0.25).all()
        await app.receive({"act": "reset-inputs"})
        assert [getattr(state, "fill", "") for state in session.inputs] == ["normal", "normal"]
        assert browser.other["store"]["text"] == ""

    opened(first)
    opened(second, stored=kept)
    broken = dict.fromkeys(kept, '{"forward": {"input0": {"settings": 3}}}')

    async def third(app: App, browser: FakeBrowser) -> None:
        await app.receive({"act": "card", "name": "add"})
        assert browser.text["status"].startswith("add.pte loaded")

    opened(third, stored=broken)


def test_the_server_finds_cards_by_their_place(tmp_path: Path) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    (samples / "b.json").write_text('{"title": "B", "order": 2, "files": {"program": "b.pte"}}')
    (samples / "a.json").write_text('{"title": "A", "order": 3, "files": {"program": "a.pte"}}')
    (samples / "a.tokenizer.json").write_text("{}")
    (samples / "broken.json").write_text("{")
    (samples / "z.json").write_text('{"order": 90, "files": {"program": "z.pte"}}')
    index = tmp_path / "index.json"
    index.write_text(json.dumps([MODEL]))
    cards = json.loads(gallery(tmp_path, index))
    assert [card["name"] for card in cards] == ["b", "a", "broken", "pitch", "z"]
    assert cards[0]["folder"] == "samples/"
    assert cards[3]["folder"] == "models/pitch/"
    assert "broken.json is not JSON" in cards[2]["problem"]
    index.write_text("[")
    assert len(json.loads(gallery(tmp_path, index))) == 4


def test_one_bad_card_leaves_the_others(tmp_path: Path) -> None:
    """An error of a card is shown in its place."""
    samples = tmp_path / "samples"
    samples.mkdir()
    good = {"order": 2, "files": {"program": "a.pte"}}
    for name, text, _ in BAD_CARDS:
        (samples / f"{name}.json").write_bytes(text)
    (samples / "good.json").write_text(json.dumps(good))
    index = tmp_path / "index.json"
    index.write_text(json.dumps([5, {}, {"name": []}, {**MODEL, "inputs": 3}, MODEL]))
    cards = json.loads(gallery(tmp_path, index))
    problems = {card["name"]: card.get("problem") for card in cards}
    assert len(cards) == len(BAD_CARDS) + 6
    assert problems["good"] is None
    for name, _, says in BAD_CARDS:
        assert says in problems[name]
    told = [card.get("problem") for card in cards if card["folder"] == "models/pitch/"]
    assert told[0].startswith("the card of pitch: inputs must be a list, got 3")
    assert told[1] is None
    assert "not a table with a name" in problems["model 0 of the list"]


BAD_CARDS = [
    ("order", b'{"order": "first"}', 'order.json: order must be a number, got "first"'),
    ("nan", b'{"order": NaN}', "nan.json is not JSON: NaN is not a JSON number"),
    ("far", b'{"order": 1e999}', "far.json is not JSON: 1e999 is beyond"),
    ("title", b'{"title": {}}', "title.json: title must be a text"),
    ("inputs", b'{"inputs": {"0": 1}}', "inputs.json: inputs must be a list"),
    ("deep", b"[" * 100_000, "deep.json is nested deeper"),
    ("bytes", b'{"title": "\xff"}', "bytes.json is not UTF-8"),
    ("digits", b'{"size": ' + b"9" * 5000 + b"}", "digits.json is not JSON"),
    ("list", b"[1]", "list.json must be a table"),
]


def test_damaged_cards(tmp_path: Path) -> None:
    """Damaged cards are listed as JSON, and the page shows their errors."""
    sample = {"title": "A", "order": 3, "files": {"program": "a.pte", "example": "a.npy"}}
    values = [{"name": "x", "layout": "NCHW", "mean": [0.5], "std": [0.5], "rate": 16000}]
    index = tmp_path / "index.json"

    def read(data: bytes) -> None:
        cards = parse_json(gallery(tmp_path, index_of(data)), "gallery.json", AssertionError)
        for card in cards:
            assert isinstance(card["name"], str)
            assert isinstance(card.get("inputs") or [], list)
            with contextlib.suppress(CardError):
                read_card(card)

    def index_of(data: bytes) -> Path:
        index.write_bytes(data)
        return index

    def make(rng: Random) -> bytes:
        cards = [{**MODEL, "inputs": values}, {"name": "a", **sample, "outputs": values}]
        return b"[" + b",".join(damaged_json(card, rng) for card in cards * 3) + b"]"

    with bounded_work():
        outcomes(read, make, extent.count(300, 5000), (), "cards")
