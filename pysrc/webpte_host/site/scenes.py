"""The scenes of the page that `serve.py pictures` takes: a sample, a view, and actions in it."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webpte_host.base.layout import ROOT
from webpte_host.site.scene_models import PREFIX

if TYPE_CHECKING:
    from webpte_host.harness.driven_page import DrivenPage

STARTED = "() => ['ready', 'failed'].includes(document.documentElement.dataset.state)"
_ENDED = """(texts) => {
    const line = document.querySelector("#status");
    return line.dataset.mood !== "busy" && texts.some((text) => line.textContent.includes(text));
}"""
_FOLDED = "() => document.querySelector('html[data-open]:not([data-drawer])') !== null"
_UNFOLDED = "() => document.querySelector('html[data-open][data-drawer]') !== null"
_FORGET_STATUS = "() => { document.querySelector('#status').textContent = ''; }"
_FOLD = """() => {
    for (const one of document.querySelectorAll("#about, #figures, #library-box")) one.open = false;
}"""
_IS_OPEN = "() => document.querySelector('html[data-open]') !== null"
_GIVE = """([selector, name, data]) => {
    const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([bytes], name));
    const field = document.querySelector(selector);
    field.files = transfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
}"""
_FILLED = "(selector) => Boolean(document.querySelector(`${selector}:not(:empty)`))"

THREE = (
    *((0.32, 0.24), (0.42, 0.17), (0.56, 0.16), (0.66, 0.24), (0.66, 0.36), (0.56, 0.45)),
    *((0.46, 0.48), (0.60, 0.51), (0.69, 0.61), (0.68, 0.74), (0.57, 0.83), (0.42, 0.83)),
    (0.31, 0.75),
)
_CIRCLE = tuple(
    (0.5 + 0.3 * math.cos(turn * math.pi / 8), 0.5 + 0.3 * math.sin(turn * math.pi / 8))
    for turn in range(17)
)
_ANIMALS = """# Animals

The fox is quick, and it will rain later.

The dog is lazy. Nobody laughed today, but they all said that the forecast is good.

The owl lives in a big tree, and says what it knows.
"""
_ZIGZAG = ((0.15, 0.35), (0.32, 0.65), (0.5, 0.35), (0.68, 0.65), (0.85, 0.35))


@dataclass(frozen=True)
class Scene:
    """A state of the page.

    `model` is a sample's name ("": none is open), or the address of a model for scenes, which
    contains a slash; `act` performs the actions. A scene of the README has a `readme_height`, in
    pixels.
    """

    name: str
    model: str
    view: str
    act: Callable[[DrivenPage], None]
    readme_height: int = 0

    def show(self, page: DrivenPage) -> None:
        """Bring the page into this state."""
        page.evaluate(_FOLD)
        if self.model:
            (open_address if "/" in self.model else open_sample)(page, self.model)
            page.click(f"#tab-{self.view}")
        elif page.evaluate(_IS_OPEN):
            page.click("[data-act=close]")
            page.wait_for("() => document.querySelector('html[data-open]') === null")
        self.act(page)


def wait_for_end(page: DrivenPage, *texts: str) -> None:
    """Wait for a final status with any of these texts: "Traced …; measuring" is not final."""
    page.wait_for(_ENDED, list(texts))


def open_sample(page: DrivenPage, name: str) -> None:
    """Open a sample of the gallery."""
    page.evaluate(_FORGET_STATUS)
    if page.evaluate(_FOLDED):
        page.click("#drawer-button")
    page.click(f".entry[data-name={name}]")
    # A sample that runs at once shows "Done" soon after "loaded".
    wait_for_end(page, f"{name}.pte loaded", "Done")
    if page.evaluate(_UNFOLDED):
        page.click("#drawer-button")


def open_address(page: DrivenPage, path: str) -> None:
    """Open a model for scenes."""
    page.evaluate(_FORGET_STATUS)
    if page.evaluate(_FOLDED):
        page.click("#drawer-button")
    page.fill("[data-act=open-url] [name=url]", PREFIX + path)
    page.press("Enter")
    wait_for_end(page, "loaded in")
    if page.evaluate(_UNFOLDED):
        page.click("#drawer-button")


def give_file(page: DrivenPage, selector: str, name: str, data: bytes) -> None:
    """Choose a file in a field."""
    page.wait_for("(selector) => document.querySelector(selector) !== null", selector)
    page.evaluate(_GIVE, [selector, name, base64.b64encode(data).decode()])


def sample(name: str) -> bytes:
    """Read a file of the samples."""
    return (ROOT / "web" / "samples" / name).read_bytes()


def trace(page: DrivenPage) -> None:
    """Trace a run in the profile, and wait for the rates measured after it."""
    page.click("#view-profile button.primary")
    wait_for_end(page, "Traced")


def _nothing(page: DrivenPage) -> None:
    pass


def _draw_a_digit(page: DrivenPage) -> None:
    page.click("[data-act=clear-drawing]")
    page.draw("canvas.pad", THREE)
    page.wait_for("() => document.querySelector('#outputs .largest .label-name') !== null")
    wait_for_end(page, "Done")


def _run(page: DrivenPage) -> None:
    page.click("#run-form [type=submit]")
    wait_for_end(page, "Done")


def _benchmark(page: DrivenPage) -> None:
    page.click("#run-more button", "Benchmark")
    wait_for_end(page, "median of")
    page.click("#figures > summary")


def _ask(page: DrivenPage) -> None:
    for question in ("Hello! Who are you?", "Tell me a story about a robot and a fox."):
        page.evaluate(_FORGET_STATUS)
        page.fill("#chat-text", question)
        page.press("Enter")
        wait_for_end(page, "Answered")


def _teach(page: DrivenPage) -> None:
    for number, line in enumerate((_CIRCLE, _ZIGZAG) * 3):
        page.evaluate(_FORGET_STATUS)
        page.draw("#teach-pad canvas", line)
        page.click(f"#teach-adds [data-kind='{number % 2}']")
        wait_for_end(page, "added")
    page.click(".teach-learn button.primary")
    wait_for_end(page, "Learned")
    page.draw("#teach-pad canvas", _CIRCLE)
    page.wait_for(_FILLED, ".teach-thinks")


def see_the_graph(page: DrivenPage) -> None:
    """Wait until the graph is drawn."""
    page.wait_for("() => document.querySelectorAll('#view-graph svg .graph-drawn').length > 5")


def _select_a_call(page: DrivenPage) -> None:
    see_the_graph(page)
    page.click("#graph-box-1")  # the first is an input


def _compare(page: DrivenPage) -> None:
    page.click("#view-compare button.primary")
    wait_for_end(page, "Compared")


def _run_a_cell(page: DrivenPage) -> None:
    page.click("#view-python button.primary")
    wait_for_end(page, "Done")


def _measure(page: DrivenPage) -> None:
    page.click("#view-bench button", "Start")
    wait_for_end(page, "Measured")


def _unfold_the_library(page: DrivenPage) -> None:
    page.evaluate("() => { document.querySelector('#library-box').open = true; }")
    page.wait_for(_FILLED, "#library")


def _unfold_the_description(page: DrivenPage) -> None:
    page.evaluate("() => { document.querySelector('#about').open = true; }")
    page.wait_for(_FILLED, "#file")


def _search_commands(page: DrivenPage) -> None:
    page.click("#palette-button")


def _open_a_missing_file(page: DrivenPage) -> None:
    if page.evaluate("() => document.querySelector('#palette').open"):
        page.press("Escape")
    page.fill("[data-act=open-url] [name=url]", "samples/no_such_model.pte")
    page.press("Enter")
    page.wait_for(_FILLED, "#error")


def _find_things(page: DrivenPage) -> None:
    give_file(page, "#task-input input[type=file]", "cat.png", sample("photo.example.png"))
    page.wait_for(_FILLED, "#task-result svg")
    wait_for_end(page, "Done in")


def _mark_names(page: DrivenPage) -> None:
    page.fill("#task-input textarea", "Ada Lovelace lives in Turin, and works for Acme.")
    page.wait_for(_FILLED, "#task-result mark")


def _search_documents(page: DrivenPage) -> None:
    page.evaluate(_FORGET_STATUS)
    give_file(page, "#documents-list input[type=file]", "animals.md", _ANIMALS.encode())
    wait_for_end(page, "Added")
    page.fill("#view-documents .documents-search input", "Which animal is quick?")
    page.wait_for(_FILLED, "#documents-found")
    page.click("#documents-found button")
    page.wait_for(_FILLED, "#documents-shown")


def _rank(page: DrivenPage) -> None:
    page.evaluate(_FORGET_STATUS)
    page.wait_for(_FILLED, "#view-rank button.primary:enabled")
    page.click("#view-rank button.primary")
    wait_for_end(page, "ranked in")


def _transcribe(page: DrivenPage) -> None:
    page.evaluate(_FORGET_STATUS)
    page.wait_for(_FILLED, "#view-speech button.primary:enabled")
    give_file(page, "#view-speech input[type=file]", "tune.wav", sample("notes.example.wav"))
    wait_for_end(page, "Transcribed")


def _say(page: DrivenPage) -> None:
    page.evaluate(_FORGET_STATUS)
    page.wait_for(_FILLED, "#view-speech button.primary:enabled")
    page.fill("#view-speech textarea", "Hello there, how are you?")
    page.click("#view-speech button.primary")
    wait_for_end(page, "Spoke")


def _train(page: DrivenPage) -> None:
    page.wait_for(_FILLED, "#view-train button.primary:enabled")
    page.fill("#train-lines", "Who are you? => I am Pip.\nWhere do you live? => In a tab.")
    page.fill("#view-train [name=steps]", "16")
    page.click("#view-train button.primary")
    wait_for_end(page, "Trained")
    page.fill("#view-train [name=question]", "Who are you?")
    page.click("#view-train button", "Ask both")
    wait_for_end(page, "Answered")


SCENES = (
    Scene("start", "", "", _nothing),
    Scene("digits", "digits", "run", _draw_a_digit),
    Scene("about", "digits", "run", _unfold_the_description),
    Scene("photo", "photo", "run", _run, 900),
    Scene("notes", "notes", "run", _run),
    Scene("benchmark", "digits", "run", _benchmark),
    Scene("chat", "stories", "chat", _ask, 1000),
    Scene("teach", "teach", "teach", _teach),
    Scene("graph", "digits", "graph", see_the_graph, 900),
    Scene("call", "digits", "graph", _select_a_call),
    Scene("profile", "digits", "profile", trace, 1000),
    Scene("compare", "digits", "compare", _compare),
    Scene("bench", "digits", "bench", _measure),
    Scene("python", "digits", "python", _run_a_cell),
    Scene("inputs", "add", "run", _run),
    Scene("task", "things/object-detection.json", "task", _find_things),
    Scene("task-text", "entities/token-classification.json", "task", _mark_names),
    Scene("documents", "encoder/model.pte", "documents", _search_documents),
    Scene("rank", "words", "rank", _rank),
    Scene("speech", "moonshine/model.pte", "speech", _transcribe),
    Scene("voice", "steady/model.pte", "speech", _say),
    Scene("train", "trained/llama_8w.pte", "train", _train),
    Scene("library", "", "", _unfold_the_library),
    Scene("error", "", "", _open_a_missing_file),
    Scene("commands", "", "", _search_commands),
)
