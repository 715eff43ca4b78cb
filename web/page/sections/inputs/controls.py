"""The controls of one input, and how their effect is shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace

import numpy as np

from page.browser import Message
from page.core.state import AppState
from page.sections.inputs.view import dim_id, input_body
from page.shared.cards.fills import CHOSEN
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.inputs.photos import FITS, ORDERS, SCALES
from page.shared.inputs.preview import input_pixels, input_preview, zoom_id
from page.shared.inputs.sounds import (
    DEFAULT_RATE,
    HIGHEST_RATE,
    LEVELS,
    LONGEST_SECONDS,
    LOWEST_RATE,
    PARTS,
)
from page.shared.npy import write_npy
from page.shared.outputs.pictures import LARGEST_SIDE
from page.shared.persistence.codec import Codec, find_codec, kind_of_file, load_codec
from webpte.errors import WebpteError

_HOW_TO_TAKE = {
    "file": "Choose a .npy, .npz or .bin file with “Choose file”, or drop one onto this input.",
    "picture": "Choose a picture with “Choose file”, take one with “Camera”, or drop one here.",
    "sound": "Choose a sound with “Choose file”, “Record” one, or drop one onto this input.",
}


class InputControls:
    def __init__(self, state: AppState, changed: Callable[[], None]) -> None:
        """Build the controls; `changed` is called whenever an input changes."""
        self._state = state
        self._changed = changed
        self._picture_url = state.browser.picture_url
        self._wording: Codec | None = None  # turns text into tokens for the open program

    @property
    def _inputs(self) -> list[Input]:
        session = self._state.session
        return session.inputs if session is not None else []

    # ---- controls of one input

    def on_save_input(self, message: Message) -> None:
        state = self._tensor(message)
        url = self._state.browser.download_url(write_npy(state.array()))
        self._state.browser.show(download={"url": url, "name": f"input{state.index}.npy"})

    def on_play(self, message: Message) -> None:
        """Play the sound in an input, as it was taken."""
        state = self._tensor(message)
        if state.samples is not None:
            samples = state.samples.astype("<f4").tobytes()
            rate = state.sound_settings.rate
            self._state.browser.show(play={"input": state.index, "samples": samples, "rate": rate})

    def on_full_input(self, message: Message) -> None:
        """Show all pixels of the picture in an input, which someone enlarges."""
        state = self._tensor(message)
        if state.fill == "picture" and not state.error:
            url = self._picture_url(input_pixels(state, LARGEST_SIDE))
            self._state.browser.show(full={"id": zoom_id(state), "pictures": {"seen": url}})

    async def on_fill(self, message: Message) -> None:
        state = self._tensor(message)
        wanted = str(message["value"])
        if wanted in CHOSEN and wanted != state.fill:
            state.error = _HOW_TO_TAKE[wanted]
            self._show_preview(state)
            return
        if wanted == "text" and self._wording is None:
            await self._find_tokenizer()
            if state not in self._inputs:
                return
        if wanted != state.fill:
            state.set_fill(wanted)
        state.error = state.error if wanted == "typed" else ""
        self._show(state)

    def on_dim(self, message: Message) -> None:
        state = self._tensor(message)
        before, dim = state.fill, int(message["dim"])
        state.set_dim(dim, str(message["value"]))
        # The slider and its number field show the same value.
        twin = dim_id(state, dim, slider=not message.get("slider"))
        self._state.browser.show(value={twin: str(state.dims[dim])})
        # The whole card only if the fill changed: it would move the cursor in the field.
        if state.fill != before:
            self._show(state)
        else:
            self._show_preview(state)

    def on_below(self, message: Message) -> None:
        state = self._tensor(message)
        state.set_below(str(message["value"]))
        self._show_preview(state)

    def on_seed(self, message: Message) -> None:
        state = self._tensor(message)
        state.set_seed(str(message["value"]))
        self._show_preview(state)

    def on_typed(self, message: Message) -> None:
        state = self._tensor(message)
        before = list(state.dims)
        state.set_text(str(message["value"]))
        if state.dims != before:  # which the size fields show
            self._show(state)
        else:
            self._show_preview(state)

    def on_draw(self, message: Message) -> None:
        """Load a drawing: bytes of the pad, from black to white, by rows."""
        state = self._tensor(message)
        if state.fill != "draw":
            return  # another fill was chosen meanwhile
        grey = np.frombuffer(bytes(message["pixels"]), np.uint8)
        state.take_drawing(grey.reshape(int(message["rows"]), int(message["columns"])))
        self._show_preview(state)

    def on_clear_drawing(self, message: Message) -> None:
        state = self._tensor(message)
        self._offer_drawing(state)
        state.take_drawing(None)
        self._show_preview(state)

    def _offer_drawing(self, state: TensorInput) -> None:
        """Offer to undo the clearing of a drawing, if a drawing was cleared."""
        before = copy(state)

        def undo() -> None:
            if state in self._inputs and state.fill == "draw":
                state.adopt(before)  # the same array: its results stay up to date
                self._show_preview(state)
                self._paint_pads([state])

        if before.drawing is not None and before.drawing.any():
            self._state.undo.offer(f"Cleared the drawing of {state.title or state.name}.", undo)

    def _paint_pads(self, inputs: Sequence[Input]) -> None:
        """Paint the drawings of inputs onto their pads, which are empty when they are new."""
        for state in inputs:
            if not isinstance(state, TensorInput) or state.fill != "draw":
                continue
            drawn = state.drawing
            if drawn is not None and drawn.any():
                pixels = {"rows": len(drawn), "columns": drawn.shape[1], "grey": drawn.tobytes()}
                self._state.browser.show(paint={f"input-{state.index}-pad": pixels})

    def on_picture_setting(self, message: Message) -> None:
        state = self._tensor(message)
        name, value = str(message["name"]), str(message["value"])
        choices = {"fit": FITS, "order": ORDERS, "scale": SCALES}
        if name in choices:
            if value in choices[name]:
                state.set_settings(replace(state.settings, **{name: value}))  # type: ignore[arg-type]
            self._show(state)
            return
        try:
            numbers = tuple(float(word) for word in value.replace(",", " ").split())
            channels = state.form.channels if state.form is not None else 1
            if len(numbers) not in (1, channels) or (name == "std" and 0 in numbers):
                raise ValueError
        except ValueError:
            state.error = f"{name} is one number, or one for each channel, such as 0.5 0.5 0.5" + (
                ", and none is 0." if name == "std" else "."
            )
        else:
            state.error = ""
            settings = state.settings
            state.set_settings(
                replace(settings, mean=numbers)
                if name == "mean"
                else replace(settings, std=numbers)
            )
        self._show_preview(state)

    async def on_sound_setting(self, message: Message) -> None:
        state = self._tensor(message)
        name, value = str(message["name"]), str(message["value"])
        settings, choices = state.sound_settings, {"part": PARTS, "level": LEVELS}
        if name in choices:
            if value in choices[name]:
                state.set_sound(replace(settings, **{name: value}))  # type: ignore[arg-type]
            self._show(state)
            return
        low, high = (LOWEST_RATE, HIGHEST_RATE) if name == "rate" else (1, 2**31 - 1)
        if not value.isdecimal() or not low <= int(value) <= high:
            state.error = f"This takes an integer from {low:,} to {high:,}."
            self._show_preview(state)
            return
        number = int(value)
        state.set_sound(replace(settings, hop=number) if name == "hop" else settings)
        if name == "rate" and number != settings.rate:
            await self._hear_again(state, number)
        self._show_preview(state)

    async def _hear_again(self, state: TensorInput, rate: int) -> None:
        """Decode the sound again, at another sample rate."""
        recording = state.recording
        state.set_sound(replace(state.sound_settings, rate=rate))
        if recording is None:
            return
        try:
            samples = await self._state.browser.hear(recording, rate, LONGEST_SECONDS)
        except ValueError as error:
            state.error = str(error)
            return
        # Another rate or file may have been chosen meanwhile.
        if state.recording is recording and state.sound_settings.rate == rate:
            state.take_sound(samples, state.file_name, recording)

    @property
    def _rate(self) -> int:
        """The sample rate of the first input that takes a sound."""
        rates = [
            state.sound_settings.rate
            for state in self._inputs
            if isinstance(state, TensorInput) and state.sound is not None
        ]
        return rates[0] if rates else DEFAULT_RATE

    def on_reroll(self, message: Message) -> None:
        state = self._tensor(message)
        state.reroll()
        self._show_preview(state)

    def on_scalar(self, message: Message) -> None:
        state = self._input(message)
        if isinstance(state, ScalarInput):
            state.set_value(str(message["value"]))
            self._show_preview(state)

    # ---- texts

    async def on_prompt(self, message: Message) -> None:
        state = self._tensor(message)
        state.prompt = str(message["value"])
        if self._wording is None:  # the fill was restored: no tokenizer was loaded yet
            await self._find_tokenizer()
        if state not in self._inputs or state.fill != "text":
            return
        before = list(state.dims)
        if self._wording is None:
            state.error = "Choose the model's tokenizer.json first: it turns text into tokens."
        else:
            try:
                state.set_prompt(state.prompt, self._wording.tokenizer.encode(state.prompt))
            except WebpteError as error:
                state.error = str(error)
        if state.dims != before:
            self._show(state)
        else:
            self._show_preview(state)

    async def on_input_tokenizer(self, message: Message) -> None:
        """Load a tokenizer.json, with its config if given, for inputs that take text."""
        state, session = self._tensor(message), self._state.session
        sources = [self._state.browser.source(file) for file in message["files"]]
        files = {kind: source for source in sources if (kind := kind_of_file(source.name))}
        try:
            wording = await load_codec(files, self._state.browser)
        except WebpteError as error:
            state.error = str(error)
            self._show_preview(state)
            return
        if session is self._state.session and state in self._inputs:
            self._wording = wording
            state.set_prompt(state.prompt, wording.tokenizer.encode(state.prompt))
            self._show(state)

    @property
    def _tokenizer_name(self) -> str:
        return self._wording.name if self._wording is not None else ""

    async def _find_tokenizer(self) -> None:
        """Find the tokenizer of the program's card, or next to the program."""
        session = self._state.session
        assert session is not None
        wording = None
        try:
            wording = await find_codec(session.source, self._state.browser)
        except WebpteError as error:
            self._state.tell(str(error), "bad")
        if session is self._state.session and self._wording is None:
            self._wording = wording

    def _input(self, message: Message) -> Input:
        index = int(message["input"])
        if index >= len(self._inputs):
            raise ValueError("this input is not on the page any more")
        return self._inputs[index]

    def _tensor(self, message: Message) -> TensorInput:
        state = self._input(message)
        if not isinstance(state, TensorInput):
            raise TypeError(f"input {state.index} is not a tensor")
        return state

    # ---- drawing

    def _show(self, state: Input) -> None:
        state.touched = True
        self._state.browser.show(
            html={
                f"input-{state.index}": input_body(state, self._tokenizer_name, self._picture_url)
            }
        )
        self._changed()

    def _show_preview(self, state: Input) -> None:
        state.touched = True
        preview = input_preview(state, self._picture_url)
        self._state.browser.show(html={f"input-{state.index}-preview": preview})
        self._changed()
