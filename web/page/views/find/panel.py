"""The find view: faces with boxes over a picture, or the text of a line.

`FINDERS` has a row for each kind of model, recognised by the output names of its card.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from page.browser import Message
from page.core.session import Held, Session
from page.core.state import AppState, Change
from page.shared.cards.fills import CHOSEN, FILLS
from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.shared.inputs.inputs import TensorInput
from page.shared.npy import Array
from page.shared.outputs.pictures import seen
from page.views.view import Panel, View, ability
from webpte.tasks.vision.vision import LEAST_SCORE, Face, Line, faces, line_of

_FINDING = "looking at the picture"


@dataclass(frozen=True)
class SeenPicture:
    """A picture as the model sees it, the outputs, and the lines of the file that explains them."""

    held: Held
    name: str  # of the picture
    picture: str
    size: tuple[int, int]  # height, width
    outputs: Sequence[Array]
    beside: Sequence[str]  # lines of the file next to the program


@dataclass(frozen=True)
class Finder:
    """A kind of model.

    outputs  names of the outputs, on the card
    title    heading of the view
    beside   the file that is needed next to the program
    show     returns the results with scores from `least` on
    graded   whether `least` matters
    """

    outputs: tuple[str, ...]
    title: str
    beside: str
    show: Callable[[SeenPicture, float], Html]
    graded: bool = False


def faces_view(found: SeenPicture, least: float) -> Html:
    anchors = np.array([line.split() for line in found.beside if line.strip()], np.float64)
    boxes, scores = found.outputs
    side = found.size[1]
    listed = faces(boxes[0], scores[0].reshape(-1), anchors, side, least_score=least)
    told = f"{plural(len(listed), 'face')} found" if listed else "No face found"
    rows = [h("li", f"Face {at}: {100 * one.score:.0f} % sure") for at, one in enumerate(listed, 1)]
    overlay = h(
        "svg",
        [_box(one) for one in listed],
        viewBox="0 0 1 1",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return h(
        "div",
        _picture(found, told, overlay),
        h("div", h("h3", told), h("ol", rows, class_="note"), class_="find-told"),
        class_="find-found",
    )


def _box(face: Face) -> list[Html]:
    left, top, right, bottom = face.box
    frame = h("rect", x=left, y=top, width=right - left, height=bottom - top)
    return [frame, *(h("circle", cx=x, cy=y, r=0.008) for x, y in face.points)]


def text_view(found: SeenPicture, least: float) -> Html:
    line = line_of(found.outputs[0][0], found.beside)
    told = f"Text: {line.text}" if line.letters else "No letters found"
    return h(
        "div",
        _picture(found, told),
        h(
            "div",
            h("p", _letters(line), class_="find-text") if line.letters else h("p", told),
            h("p", f"{100 * line.score:.0f} % sure, letter by letter", class_="note"),
            class_="find-told",
        ),
        class_="find-found find-line",
    )


def _letters(line: Line) -> list[Html]:
    """Return the letters, with uncertain ones marked."""
    return [
        h("mark", one.text, title=f"{100 * one.score:.0f} % sure")
        if one.score < LEAST_SCORE
        else h("span", one.text)
        for one in line.letters
    ]


def _picture(found: SeenPicture, told: str, overlay: Html | None = None) -> Html:
    height, width = found.size
    told = f"Input of the model. {told}"
    image = h("img", src=found.picture, width=width, height=height, alt=told)
    return h("div", image, overlay, class_="find-picture")


def set_view(state: TensorInput, layout: str, looked: bool) -> Html:
    """Return the picture of the first input, which is analyzed next, or was last."""
    name = picture_name(state)
    told, image = f"No picture chosen: the input is {name}.", None
    if state.error:
        told = state.error
    elif state.fill in (*CHOSEN, "draw"):
        told = f"{'Analyzed' if looked else 'Next:'} {name}"
        shown = _as_seen(state, layout)
        image = h("img", src=shown, alt="What the model sees of it", class_="seen")
    return h("figure", image, h("figcaption", told), class_="find-set")


def picture_name(state: TensorInput) -> str:
    return state.file_name if state.fill in CHOSEN else FILLS[state.fill]


def _as_seen(state: TensorInput, layout: str) -> str:
    """Return the input picture as a data URL, with its channels in the order RGB."""
    array = state.array()
    if state.settings.order == "BGR" and "C" in layout:
        array = np.flip(array, layout.index("C"))
    return seen(array, layout)


FINDERS = (
    Finder(("boxes", "scores"), "Faces", "anchors.txt", faces_view, graded=True),
    Finder(("letters",), "Text of a line", "labels.txt", text_view),
)


def _finder(session: Session) -> Finder | None:
    card = session.source.card
    if card is None or not session.source.address:
        return None
    names = tuple(value.name for value in card.outputs)
    return next((one for one in FINDERS if one.outputs == names), None)


FINDS = ability("Open a model that finds faces or text.", lambda s: _finder(s) is not None)


class FindPanel(Panel):
    def __init__(self, view: View, state: AppState) -> None:
        super().__init__(view, state)
        self._seen: SeenPicture | None = None
        self._least = LEAST_SCORE
        self._beside: dict[str, list[str]] = {}  # lines, by address

    def forget(self) -> None:
        self._seen = None

    def on_least(self, message: Message) -> None:
        self._least = min(max(int(message["value"]), 5), 95) / 100
        self.draw()

    async def on_look(self, message: Message) -> None:
        session = self.state.idle_session()
        finder = _finder(session) if session is not None else None
        if session is None or finder is None:
            return
        state = session.inputs[0]
        if state.error or not isinstance(state, TensorInput) or state.form is None:
            self.state.tell(f"{state.name} is not ready: {state.error or 'no picture'}", "bad")
            return
        self.state.show(error="")
        self.state.tell("Analyzing", "busy")
        work = self._look(session, finder, state, state.form.layout)
        await self.state.do(session, work, _FINDING, can_stop=False)
        self.draw()

    async def _look(
        self, session: Session, finder: Finder, state: TensorInput, layout: str
    ) -> None:
        held, array = session.held(), state.array()
        name, picture = picture_name(state), _as_seen(state, layout)
        address = f"{session.source.address.rpartition('/')[0]}/{finder.beside}"
        if address not in self._beside:
            data = await self.state.browser.fetch_bytes(address)
            self._beside[address] = data.decode("utf-8").removesuffix("\n").split("\n")
        outputs = await session.program.run(session.method, array)
        size = array.shape[layout.index("H")], array.shape[layout.index("W")]
        self._seen = SeenPicture(held, name, picture, size, outputs, self._beside[address])
        self.state.tell(f"Analyzed {name}")

    def draw(self) -> None:
        session = self.state.session
        finder = _finder(session) if session is not None else None
        if session is None or finder is None:
            return
        chosen = h(
            "label",
            "Choose a picture",
            h("input", type="file", accept="image/*,.npy", data_act="npy", data_input="0"),
            class_="button",
        )
        look = h("button", "Analyze", type="button", class_="primary", data_act=self.act("look"))
        least = h(
            "label",
            h("span", f"at least {100 * self._least:.0f} % sure", class_="label"),
            h(
                "input",
                type="range",
                min="5",
                max="95",
                step="5",
                value=round(100 * self._least),
                data_act=self.act("least"),
            ),
        )
        found, state = self._seen, session.inputs[0]
        looked = found is not None and found.held == session.held()
        chosen_now = None
        if isinstance(state, TensorInput) and state.form is not None:
            chosen_now = set_view(state, state.form.layout, looked)
        note = f"This is the result for {found.name}. Analyze again to update." if found else ""
        self.show(
            h(
                "section",
                h("h2", finder.title),
                h("div", look, chosen, least if finder.graded else None, class_="controls"),
                chosen_now,
                h("p", note, class_="notice notice-warn") if found and not looked else None,
                finder.show(found, self._least) if found is not None else None,
                class_="card find",
            )
        )


VIEW = View(
    "find",
    "Find",
    order=16,
    make=FindPanel,
    needs=(FINDS,),
    follows=(Change.SESSION, Change.INPUTS),
    style=True,
    names_device=True,
)
