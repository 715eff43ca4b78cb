"""Models with special views, from the gallery to their output: rank, find faces, read, answer from
documents."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tokenizers
from playwright.sync_api import BrowserContext, Locator, Page, expect

from page.shared.outputs.pictures import png_rgb
from support.harness.task_cases import models_folder
from support.harness.texts import WORDS, tokenizer_path
from support.page.gallery_models import (
    CELL,
    HEIGHT,
    PICTURE,
    PLACES,
    SIDE,
    Encoder,
    anchors,
    face_finder,
    install,
    line_reader,
)
from support.page.page_visit import payload, show_samples, status, visit
from support.write.pdf_writer import write_pdf
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

QUERY = "a cat sleeps"
LINES = ("cats sleep", "the shop is open", "a dog and a cat", "wolves", "it rains on a cat", "no")

SIDES = "all => all.map((one) => [one.x, one.y, one.width, one.height].map((n) => n.baseVal.value))"


TOKENIZER = tokenizers.Tokenizer.from_file(str(tokenizer_path(WORDS)))
TOKENIZER.no_padding()
TOKENIZER.no_truncation()


def tokens_of(text: str) -> list[int]:
    found: list[int] = TOKENIZER.encode(text).ids
    return found


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(TOKENIZER.get_vocab_size())


@pytest.fixture(scope="module")
def page(
    profile: BrowserContext,
    site: Site,
    encoder: Encoder,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Page]:
    """One page for the whole file: Python starts once."""
    folder = tmp_path_factory.mktemp("models")
    text = {"model.pte": encoder.pte(), "tokenizer.json": tokenizer_path(WORDS).read_bytes()}
    install(folder, "meanings", text, view="rank", tokenizer="tokenizer.json")
    faces = {"model.pte": face_finder(), "anchors.txt": anchors().encode()}
    outputs = [{"name": "boxes"}, {"name": "scores"}]
    install(folder, "faces", faces, view="find", inputs=[PICTURE], outputs=outputs)
    line = {"model.pte": line_reader(), "labels.txt": b"\no\ng\n"}
    install(folder, "line", line, view="find", inputs=[PICTURE], outputs=[{"name": "letters"}])
    tokenizer = (models_folder() / "vectors" / "tokenizer.json").read_bytes()
    text = {"model.pte": Encoder(2000).pte(), "tokenizer.json": tokenizer}
    install(folder, "manuals", text, view="documents", tokenizer="tokenizer.json")
    with site.mounted(Mount("/models/", folder)), visit(profile, site, but="404") as page:
        yield page


def card(page: Page, name: str) -> Locator:
    """Open a card of the gallery, and return its view once it is shown."""
    show_samples(page)
    page.locator("#gallery-list").get_by_role("button", name=name, exact=True).click()
    expect(status(page)).to_contain_text("loaded in")
    return page.get_by_role("tabpanel")


def grey(pixels: np.ndarray) -> bytes:
    return png_rgb(np.repeat(pixels.astype(np.uint8)[..., None], 3, axis=2))


@pytest.mark.thorough
def test_sentences_are_ranked_as_numpy_does(page: Page, encoder: Encoder) -> None:
    view = card(page, "meanings")
    view.get_by_label("query").fill(QUERY)
    view.get_by_label("lines to rank").fill("\n".join(LINES))
    view.get_by_role("button", name="Rank").click()
    expect(status(page)).to_contain_text("6 lines ranked in")
    asked = tokens_of(QUERY)
    scores = {line: encoder.nearness(asked, tokens_of(line)) for line in LINES}
    ranked = sorted(scores, key=lambda line: -scores[line])
    expect(view.locator(".rank-text")).to_have_text(ranked)
    shown = [float(one) for one in view.locator(".rank-list .share").all_inner_texts()]
    np.testing.assert_allclose(shown, sorted(scores.values(), reverse=True), atol=0.006)
    # The nearest sentence is the query itself, wherever it is listed.
    view.get_by_label("lines to rank").fill("\n".join((*LINES, QUERY)))
    view.get_by_role("button", name="Rank").click()
    expect(view.locator(".rank-list li").first).to_contain_text(QUERY)
    expect(view.locator(".rank-list .share").first).to_have_text("1.00")


@pytest.mark.thorough  # boxes of a task are seen in test_task_view.py
def test_faces_are_framed_where_they_are(page: Page) -> None:
    view = card(page, "faces")
    pixels = np.zeros((SIDE, SIDE))
    pixels[:CELL, 2 * CELL : 3 * CELL] = 255  # white: 8 is 100 % sure
    pixels[3 * CELL :, :CELL] = 140  # grey: 0.78 is 69 %
    view.locator("input[type=file]").set_input_files(payload("two.png", grey(pixels)))
    expect(page.locator("#input-0")).to_contain_text("two.png")
    view.get_by_role("button", name="Analyze").click()
    expect(view.locator("li")).to_have_text(["Face 1: 100 % sure", "Face 2: 69 % sure"])
    frames = view.locator("svg rect").evaluate_all(SIDES)
    np.testing.assert_allclose(frames, [[0.5, 0, 0.25, 0.25], [0, 0.75, 0.25, 0.25]], atol=1e-3)
    # The place of the face on the displayed picture.
    picture, frame = (
        view.locator(f".find-picture {one}").first.bounding_box() for one in ("img", "svg rect")
    )
    assert picture is not None
    assert frame is not None
    assert frame["x"] == pytest.approx(picture["x"] + picture["width"] / 2, abs=4)
    view.get_by_role("slider").fill("80")
    expect(view.locator("li")).to_have_text(["Face 1: 100 % sure"])
    black = payload("none.png", grey(np.zeros((SIDE, SIDE))))
    view.locator("input[type=file]").set_input_files(black)
    expect(view).to_contain_text("Analyze again to update.")
    view.get_by_role("button", name="Analyze").click()
    expect(view).to_contain_text("No face found")


@pytest.mark.thorough
def test_a_line_is_read_letter_by_letter(page: Page) -> None:
    view = card(page, "line")
    pixels = np.zeros((HEIGHT, HEIGHT * PLACES))
    for place, half, bright in ((1, 1, 255), (2, 1, 255), (3, 0, 230), (5, 0, 102), (6, 1, 255)):
        rows = slice(half * HEIGHT // 2, (half + 1) * HEIGHT // 2)
        pixels[rows, place * HEIGHT : (place + 1) * HEIGHT] = bright
    view.locator("input[type=file]").set_input_files(payload("line.png", grey(pixels)))
    expect(page.locator("#input-0")).to_contain_text("line.png")
    view.get_by_role("button", name="Analyze").click()
    expect(view.locator(".find-text")).to_have_text("goog")  # repeats of a letter count once
    expect(view.locator("mark")).to_have_text("o")
    expect(view.locator("mark")).to_have_attribute("title", "40 % sure")
    expect(view).to_contain_text("83 % sure, letter by letter")
    expect(view.get_by_alt_text("Text: goog")).to_be_visible()


PAGES = [["The dog is lazy."], ["The fox is quick."], ["It will rain later."]]


def test_a_pdf_is_searched_kept_and_asked(page: Page) -> None:
    view = card(page, "manuals")
    add = view.locator("#documents-list input[type=file]")
    add.set_input_files(payload("manual.pdf", write_pdf(PAGES)))
    expect(status(page)).to_have_text("Added 1 document with 3 passages")
    expect(view.locator("#documents-list")).to_contain_text("3 pages · 3 passages")
    view.get_by_label("Search the documents").press_sequentially("The fox is quick.")
    first = view.locator(".documents-found li").first
    expect(first).to_contain_text("manual.pdf, page 2")
    expect(first).to_contain_text("1.00")
    first.get_by_role("button").click()
    shown = view.locator("#documents-shown mark")
    expect(shown).to_have_text("The fox is quick.")

    page.reload()
    expect(status(page)).to_contain_text("loaded in")
    expect(view.locator("#documents-list")).to_contain_text("manual.pdf")
    view.get_by_label("Question").fill("It will rain later.")
    view.get_by_label("Cite every sentence").check()
    view.get_by_label("answered by").select_option("stories")
    view.get_by_role("button", name="Ask").click()
    cited = view.locator(".documents-cited button").first
    expect(cited).to_be_visible()
    view.get_by_role("button", name="Stop").click()
    expect(status(page)).to_contain_text("Stopped")
    place = cited.inner_text().partition("] ")[2]
    assert place.startswith("manual.pdf, page ")
    cited.click()
    expect(view.locator("#documents-shown h2")).to_have_text(place)
    number = int(place.rpartition(" ")[2])
    expect(shown).to_have_text(PAGES[number - 1][0])
