"""The page in Firefox: its main ways and its narrow layout, with pictures among the reports."""

from __future__ import annotations

import pytest

from support.page.firefox_visit import take_picture
from webpte_host.harness.firefox import ENTER, FirefoxPage

ENDED = """(text) => {
    const line = document.querySelector("#status");
    return line.dataset.mood !== "busy" && line.innerText.includes(text);
}"""

# The words in names of the gallery's cards that are broken over two lines.
BROKEN = """() => {
    const broken = [];
    for (const name of document.querySelectorAll("#gallery-list .entry strong")) {
        for (const { 0: word, index } of name.firstChild.data.matchAll(/\\S+/g)) {
            const range = new Range();
            range.setStart(name.firstChild, index);
            range.setEnd(name.firstChild, index + word.length);
            if (range.getClientRects().length !== 1) broken.push(word);
        }
    }
    return broken;
}"""

WIDER = "() => document.documentElement.scrollWidth - innerWidth"


# Two buttons, one above the other, that change places as the pointer comes near.
MOVING = """() => {
    const box = document.createElement("div");
    box.id = "moving";
    box.style = "position: fixed; inset: 0; z-index: 99; display: grid;";
    window.clicked = [];
    for (const name of ["wanted", "other"]) {
        const button = document.createElement("button");
        button.className = name;
        button.onclick = () => window.clicked.push(name);
        box.append(button);
    }
    box.addEventListener("pointermove", () => box.append(box.firstChild), { once: true });
    document.body.append(box);
}"""


def wait_for_end(page: FirefoxPage, text: str) -> None:
    """Wait for the final status: while the page is busy, no status is final."""
    page.wait_for(ENDED, text)


def show_samples(page: FirefoxPage) -> None:
    """Unfold the samples, which are folded while a program is open."""
    if page.evaluate("() => document.querySelector('html[data-open]:not([data-drawer])') !== null"):
        page.click("#drawer-button")


def open_card(page: FirefoxPage, name: str, view: str) -> None:
    # The line may say of an earlier test that this program was loaded.
    page.evaluate("() => { document.querySelector('#status').textContent = ''; }")
    show_samples(page)
    page.click(f"#gallery-list .entry[data-name={name}]")
    page.wait_for_text("#status", f"{name}.pte loaded")
    page.click(f"#tab-{view}")


def test_a_click_comes_down_on_what_moves(page: FirefoxPage) -> None:
    """The driver's own test: a click that misses is repeated, and the wrong button is spared."""
    page.evaluate(MOVING)
    try:
        page.click("#moving .wanted")
        assert page.evaluate("() => window.clicked") == ["wanted"]
    finally:
        page.evaluate("() => document.querySelector('#moving').remove()")


def test_a_drawn_digit_is_told(page: FirefoxPage) -> None:
    take_picture(page, "start")
    open_card(page, "digits", "run")
    page.draw("canvas.pad", [(0.5, 0.15), (0.5, 0.5), (0.5, 0.85)])
    page.click("#run-form [type=submit]")
    wait_for_end(page, "Done")
    take_picture(page, "digits")
    assert page.text("#outputs .largest .label-name") == "1"


def test_the_graph_is_drawn(page: FirefoxPage) -> None:
    open_card(page, "digits", "graph")
    page.wait_for("() => document.querySelectorAll('#view-graph svg .graph-drawn').length > 5")
    take_picture(page, "graph")


def test_a_run_is_traced(page: FirefoxPage) -> None:
    open_card(page, "digits", "profile")
    page.click("#view-profile button.primary")
    wait_for_end(page, "Traced")
    assert "conv" in page.text("#view-profile")
    take_picture(page, "profile")


def test_a_chat_answers(page: FirefoxPage) -> None:
    open_card(page, "stories", "chat")
    page.fill("#chat-text", "What does a cow say?")
    page.press(ENTER)
    wait_for_end(page, "Answered")
    assert page.text(".chat-assistant .chat-said") == "A cow says moo!"
    take_picture(page, "chat")


@pytest.mark.parametrize("width", [390, 1440])
def test_names_of_cards_are_not_broken(page: FirefoxPage, width: int) -> None:
    page.set_viewport(width, 900)
    show_samples(page)
    try:
        page.wait_for("(width) => innerWidth === width", width)
        take_picture(page, f"open-{width}")
        assert page.evaluate(BROKEN) == []
        assert page.evaluate(WIDER) <= 0
    finally:
        page.set_viewport(1440, 900)
