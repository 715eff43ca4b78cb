"""The outputs section: the last results, whether they are outdated, and what to do with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from page.browser import FilesError, Message
from page.core.session import Results, Session
from page.core.state import AppState
from page.sections.outputs.view import (
    age_view,
    comparison_view,
    outputs_card,
    rendered_view,
    unknown_state_view,
)
from page.shared.cards.cards import CardValue
from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.shared.inputs.inputs import Input, TensorInput
from page.shared.npy import Array, NpyError, read_npy, write_npy, write_npz
from page.shared.outputs.pictures import LARGEST_SIDE, seen_pixels
from page.shared.outputs.renderers import picture
from page.shared.outputs.renderers.base import Backdrop, Output, OutputContext
from page.shared.outputs.renderers.choose import chosen_renderer
from page.shared.outputs.renderers.scores import answer_text, rank
from page.shared.outputs.tensors import values_text
from webpte import TensorInfo
from webpte.inspection.report.difference import Difference, Tolerance, difference

BACKDROP = 1024  # pixels of its longer side


class OutputController:
    def __init__(self, state: AppState, chosen: Callable[[], None] = lambda: None) -> None:
        """Build the controller; `chosen` is called whenever someone chose another renderer."""
        self._state = state
        self._chosen = chosen

    @property
    def _outputs(self) -> list[Output]:
        session = self._state.session
        return session.shown.outputs if session is not None and session.shown is not None else []

    def draw(self) -> None:
        session = self._state.session
        if session is None or session.shown is None:
            self._state.show(outputs="")
            return
        contexts = contexts_of(session, self._state.browser.picture_url)
        choices = [session.choice(context.output.index) for context in contexts]
        self._state.show(outputs=outputs_card(contexts, choices))
        for index, verdict in session.shown.verdicts.items():
            self._show_verdict(index, verdict)
        self.draw_age()

    def draw_age(self) -> None:
        """Draw only the note that results are outdated: pictures take long to draw."""
        session = self._state.session
        if session is not None and session.shown is not None:
            self._state.show(outputs_age=age_view(session.age()))

    def answer(self) -> str:
        """Return the answer of the first output with labels, in a few words, or ""."""
        session = self._state.session
        if session is None or any(map(_is_blank, session.inputs)):
            return ""
        contexts = contexts_of(session, self._state.browser.picture_url)
        answers = (answer_text(rank(one.array, one.labels)) for one in contexts if one.labels)
        return next(filter(None, answers), "")

    def scroll_into_view(self) -> None:
        """Scroll to the outputs, unless the inputs have changed meanwhile."""
        session = self._state.session
        if session is not None and session.shown is not None and not session.age():
            self._state.browser.show(scroll="outputs")

    async def accept_labels(self, file: Any) -> None:
        """Load labels, one per line, for the outputs whose last dim has as many."""
        session, browser = self._state.session, self._state.browser
        name = browser.source(file).name
        if session is None or not session.method:
            raise FilesError(
                f"{name} is a text file, which is taken as labels of outputs: open a program first"
            )
        data = await browser.read(file)
        try:
            lines = data.decode("utf-8").removesuffix("\n").splitlines()
        except UnicodeDecodeError as error:
            raise FilesError(
                f"{name} holds no text, although its name ends in .txt: a program needs its own "
                "ending (.pte), as other files do"
            ) from error
        outputs = session.methods[session.method].outputs
        last = [
            one.shape[-1] if isinstance(one, TensorInfo) and one.shape else 0 for one in outputs
        ]
        fits = [index for index, size in enumerate(last) if size == len(lines)]
        if not fits:
            sizes = ", ".join(map(str, last))
            raise FilesError(
                f"A text file is taken as labels of an output, one per line. {name} has "
                f"{plural(len(lines), 'line')}, and the last dim of the outputs has {sizes}"
            )
        session.labels |= dict.fromkeys(fits, tuple(lines))
        self.draw()
        self._state.tell(f"{name} has the labels of {', '.join(outputs[i].name for i in fits)}")

    def compare_all(self, expected: Sequence[Any], against: str) -> list[Difference]:
        compared = [
            difference(output.array, Output(0, "", value).array, Tolerance())
            for output, value in zip(self._outputs, expected, strict=True)
        ]
        for output, result in zip(self._outputs, compared, strict=True):
            self._keep_verdict(output, comparison_view(result, against))
        return compared

    def tell_unknown_state(self, reason: str) -> None:
        """Show why a comparison is impossible, for every output."""
        for output in self._outputs:
            self._show_verdict(output.index, unknown_state_view(reason))

    def on_copy(self, message: Message) -> None:
        output = self._output(message)
        self._state.browser.show(
            copy={"text": values_text(output.array), "done": f"{output.name} is copied"}
        )

    def on_download(self, message: Message) -> None:
        output = self._output(message)
        self._download(write_npy(output.array), f"{_file_name(output)}.npy")

    def on_download_all(self, message: Message) -> None:
        named: dict[str, Any] = {}
        for output in self._outputs:
            name = _file_name(output)
            named[f"{name}_{output.index}" if name in named else name] = output.array
        if named:
            self._download(write_npz(named), "outputs.npz")

    async def on_download_picture(self, message: Message) -> None:
        context = self._context(message)
        assert self._state.session is not None
        settings = self._state.session.choice(context.output.index).settings
        name = f"{context.card.name or _file_name(context.output)}.png"
        self._state.tell(f"Saving {name}", "busy")
        png = await self._state.browser.png(picture.pixels_of(context, settings))
        self._download(png, name)
        self._state.tell(f"Saved {name}")

    def on_full_output(self, message: Message) -> None:
        """Show all pixels of a picture that someone enlarges, and of the input picture below it."""
        context, browser = self._context(message), self._state.browser
        session = self._state.session
        assert session is not None
        choice = session.choice(context.output.index)
        if chosen_renderer(context, choice) is not picture.RENDERER:
            return  # another one was chosen meanwhile
        pictures = {
            "rendered-picture": browser.picture_url(picture.pixels_of(context, choice.settings))
        }
        before = input_picture(session, LARGEST_SIDE).pixels
        if before is not None:
            pictures["compare-before"] = browser.picture_url(before)
        browser.show(full={"id": picture.zoom_id(context), "pictures": pictures})

    def _download(self, data: bytes, name: str) -> None:
        url = self._state.browser.download_url(data)
        self._state.browser.show(download={"url": url, "name": name})

    # ---- renderers

    def on_renderer(self, message: Message) -> None:
        context = self._context(message)
        assert self._state.session is not None
        self._state.session.choice(context.output.index).renderer = str(message["renderer"])
        self._show_rendered(context)

    def on_renderer_setting(self, message: Message) -> None:
        context = self._context(message)
        assert self._state.session is not None
        choice = self._state.session.choice(context.output.index)
        choice.settings[str(message["name"])] = str(message["value"])
        self._show_rendered(context)

    def on_point_at(self, message: Message) -> None:
        """Show the value at a place of an output, from 0 to 1 across and down."""
        context = self._context(message)
        assert self._state.session is not None
        choice = self._state.session.choice(context.output.index)
        renderer = chosen_renderer(context, choice)
        if renderer.point is not None:
            x, y = (min(max(float(message[name]), 0.0), 1.0) for name in ("x", "y"))
            told = renderer.point(context, choice.settings, x, y)
            self._state.browser.show(text={f"output-{context.output.index}-point": told})

    def _show_rendered(self, context: OutputContext) -> None:
        session = self._state.session
        assert session is not None
        index = context.output.index
        shown = rendered_view(context, session.choice(index))
        self._state.browser.show(html={f"output-{index}-rendered": shown})
        self._chosen()

    def _context(self, message: Message) -> OutputContext:
        self._output(message)
        session = self._state.session
        assert session is not None
        return contexts_of(session, self._state.browser.picture_url)[int(message["output"])]

    async def on_compare(self, message: Message) -> None:
        output = self._output(message)
        file = message["files"][0]
        name = self._state.browser.source(file).name
        try:
            expected = read_npy(await self._state.browser.read(file), name)
        except NpyError as error:
            shown = h("p", str(error), class_="notice notice-bad")
        else:
            shown = comparison_view(difference(output.array, expected, Tolerance()), name)
        if output in self._outputs:  # other results may have replaced it meanwhile
            self._keep_verdict(output, shown)

    def _output(self, message: Message) -> Output:
        index = int(message["output"])
        if index >= len(self._outputs):
            raise ValueError("these results are not on the page any more: run the program again")
        return self._outputs[index]

    def _keep_verdict(self, output: Output, verdict: Html) -> None:
        """Keep a verdict with its results, and show it."""
        session = self._state.session
        if session is not None and session.shown is not None:
            session.shown.verdicts[output.index] = verdict
        self._show_verdict(output.index, verdict)

    def _show_verdict(self, index: int, verdict: Html) -> None:
        self._state.browser.show(html={f"output-{index}-compare": verdict})


def _is_blank(state: Input) -> bool:
    return isinstance(state, TensorInput) and state.is_blank


def _file_name(output: Output) -> str:
    return re.sub(r"[^\w.-]+", "_", output.name).strip("._") or f"output{output.index}"


def contexts_of(session: Session, picture_url: Callable[[Array], str]) -> list[OutputContext]:
    """Return the context of each output that is shown, in order."""
    results = session.shown
    if results is None:
        return []
    card = session.source.card
    told = card.outputs if card is not None else ()
    inputs = results.calls[-1].inputs if results.calls else ()
    given = tuple(np.shape(one) for one in inputs)
    row_seconds = _frame_seconds(session)
    return [
        OutputContext(
            output,
            session.labels.get(output.index, ()),
            told[output.index] if output.index < len(told) else CardValue(),
            lambda: _backdrop(session, results),
            given,
            [other for other in results.outputs if other is not output],
            picture_url,
            row_seconds,
        )
        for output in results.outputs
    ]


def _backdrop(session: Session, results: Results) -> Backdrop:
    """Return the input picture of the results that are shown, scaled once."""
    if results.backdrop is None:
        results.backdrop = input_picture(session, BACKDROP)
    return results.backdrop


def _frame_seconds(session: Session) -> float:
    """Return the time from frame to frame of the sound that was answered; 0 without one."""
    for state in session.inputs:
        if isinstance(state, TensorInput) and state.fill == "sound" and state.sound is not None:
            settings = state.sound_settings
            if state.sound.frames is not None and settings.hop:
                return settings.hop / settings.rate
    return 0.0


def input_picture(session: Session, side: int) -> Backdrop:
    """Return the input picture of the last run with no side over `side`."""
    results = session.shown
    calls = results.calls if results is not None else ()
    for state, array in zip(session.inputs, calls[-1].inputs if calls else (), strict=False):
        form = state.form if isinstance(state, TensorInput) else None
        if form is not None and isinstance(array, np.ndarray) and array.size:
            assert isinstance(state, TensorInput)
            known = state.fill in ("picture", "draw")
            scale = state.settings.mean_std if known else None
            pixels = seen_pixels(array, form.layout, side, scale)
            if state.settings.order == "BGR":
                pixels = pixels[:, :, ::-1]
            size = array.shape[form.rows], array.shape[form.columns]
            assert results is not None
            is_current = results.held == session.held() and state.fill == "picture"
            photo = state.photo if is_current else None
            loaded = (photo.height, photo.width) if photo is not None else (0, 0)
            return Backdrop(pixels, size, loaded)
    return Backdrop()
