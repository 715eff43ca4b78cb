"""The inputs section: what each input holds, what its controls do, and what is dropped for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from page.browser import Message
from page.input_view import ask_view, input_body, input_preview, inputs_card
from page.inputs import Input, ScalarInput, TensorInput
from page.npy import Array, NpyError, read_npy, write_npy
from page.photos import FITS, LARGEST, ORDERS, SCALES
from page.placing import Arrival, is_picture_file, misfit_text, place, read_arrivals
from page.stage import Stage


class InputDesk:
    def __init__(self, stage: Stage, changed: Callable[[], None]) -> None:
        """`changed` is called whenever an input holds something else."""
        self._stage = stage
        self._changed = changed
        self._asked: dict[int, tuple[Arrival, list[TensorInput]]] = {}
        self._next_question = 0
        self._drawn = ""  # the program whose inputs were drawn last

    def draw(self) -> None:
        """All of it, for the session and its method. Questions about other inputs are over."""
        self._asked.clear()
        session = self._stage.session
        card = inputs_card(session.inputs) if session is not None and session.method else ""
        name = session.source.name if session is not None else ""
        if name != self._drawn:  # what is on a pad was for another program
            self._stage.show(inputs="")
        self._drawn = name
        self._stage.show(ask="", inputs=card)

    @property
    def problem(self) -> Input | None:
        """The first input that cannot be used as it is."""
        return next((state for state in self._states if state.error), None)

    @property
    def _states(self) -> list[Input]:
        session = self._stage.session
        return session.inputs if session is not None else []

    def on_reset_inputs(self, message: Message) -> None:
        if self._stage.session is not None:
            self._stage.session.reset_inputs()
            self._drawn = ""
            self.draw()
            self._changed()

    # ---- controls of one input

    def on_save_input(self, message: Message) -> None:
        state = self._tensor(message)
        url = self._stage.browser.download_url(write_npy(state.array()))
        self._stage.browser.show(download={"url": url, "name": f"input{state.index}.npy"})

    def on_fill(self, message: Message) -> None:
        state = self._tensor(message)
        wanted = str(message["value"])
        if wanted in ("file", "picture") and wanted != state.fill:
            what = "a .npy file" if wanted == "file" else "a picture"
            state.error = f"Choose {what} with “Load”, or drop one onto this input."
            self._show_preview(state)
            return
        if wanted != state.fill:
            state.set_fill(wanted)
        state.error = state.error if wanted == "typed" else ""
        self._show(state)

    def on_dim(self, message: Message) -> None:
        state = self._tensor(message)
        before = state.fill
        state.set_dim(int(message["dim"]), str(message["value"]))
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
        if state.dims != before:  # which the fields for the sizes show
            self._show(state)
        else:
            self._show_preview(state)

    def on_draw(self, message: Message) -> None:
        """A drawing: bytes of the pad, from black to white, in as many rows as it was told."""
        state = self._tensor(message)
        if state.fill != "draw":
            return  # another fill was chosen while it was on its way
        grey = np.frombuffer(bytes(message["pixels"]), np.uint8)
        state.take_drawing(grey.reshape(int(message["rows"]), int(message["columns"])))
        self._show_preview(state)

    def on_clear_drawing(self, message: Message) -> None:
        state = self._tensor(message)
        state.take_drawing(None)
        self._show_preview(state)

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

    def on_reroll(self, message: Message) -> None:
        state = self._tensor(message)
        state.reroll()
        self._show_preview(state)

    def on_scalar(self, message: Message) -> None:
        state = self._state(message)
        if isinstance(state, ScalarInput):
            state.set_value(str(message["value"]))
            self._show_preview(state)

    async def on_npy(self, message: Message) -> None:
        """A file for one input; an archive says itself which array is for which."""
        state = self._tensor(message)
        file = message["files"][0]
        name = self._stage.browser.source(file).name
        if name.lower().endswith(".npz"):
            await self.take_files([file])
            return
        problem = ""
        try:
            array = await self._array_of(await self._stage.browser.read(file), name)
            if state in self._states:
                _take(state, array, name)
        except ValueError as error:  # NpyError is one
            problem = str(error)
        if state not in self._states:
            self._tell_too_late(name)
        elif problem:
            state.error = problem
            self._show_preview(state)
        else:
            self._show(state)

    async def _array_of(self, data: bytes, name: str) -> Array:
        if is_picture_file(name):
            return await self._stage.browser.decode(data, LARGEST)
        return read_npy(data, name)

    async def take_example(self, data: bytes, name: str, index: int) -> None:
        """What a card has for an input that nobody has touched. Raises ValueError."""
        states = self._states
        if name.lower().endswith(".npz"):
            for arrival, state in place(read_arrivals(data, name), states).placed:
                if not state.touched:
                    state.take_array(arrival.array, arrival.name)
        else:
            array = await self._array_of(data, name)
            state_ = states[index] if index < len(states) else None
            if states is not self._states or not isinstance(state_, TensorInput) or state_.touched:
                return
            _take(state_, array, name)
        self.draw()
        self._changed()

    def _state(self, message: Message) -> Input:
        index = int(message["input"])
        if index >= len(self._states):
            raise ValueError("this input is not on the page any more")
        return self._states[index]

    def _tensor(self, message: Message) -> TensorInput:
        state = self._state(message)
        if not isinstance(state, TensorInput):
            raise TypeError(f"input {state.index} is not a tensor")
        return state

    # ---- files dropped anywhere

    async def take_files(self, files: Sequence[Any]) -> None:
        """Each array goes to the input that it fits; where there are several, the page asks."""
        session = self._stage.session
        names = ", ".join(self._stage.browser.source(file).name for file in files)
        if session is None:
            raise NpyError(
                f"{names} holds values for the inputs of a program: open a program first"
            )
        method = session.method
        arrivals: list[Arrival] = []
        for file in files:
            name = self._stage.browser.source(file).name
            data = await self._stage.browser.read(file)
            if is_picture_file(name):
                pixels = await self._stage.browser.decode(data, LARGEST)
                arrivals.append(Arrival(name, name.rpartition(".")[0], pixels, is_picture=True))
            else:
                arrivals += read_arrivals(data, name)
        if self._stage.session is not session or session.method != method:
            self._tell_too_late(names)
            return
        found = place(arrivals, session.inputs)
        for arrival, state in found.placed:
            self._give(arrival, state)
            self._stage.browser.show(reveal=f"input-{state.index}")
        for question in found.unsure:
            self._asked[self._next_question] = question
            self._next_question += 1
        self._show_questions()
        if found.misfits:
            told = [misfit_text(method, arrival, why) for arrival, why in found.misfits]
            raise NpyError("\n\n".join(told))

    def on_place(self, message: Message) -> None:
        """The answer to a question. A second click finds it answered."""
        arrival, fits = self._asked.pop(int(message["file"]), (None, []))
        for state in fits:
            if arrival is not None and state.index == int(message["input"]):
                self._give(arrival, state)
        self._show_questions()

    def on_leave(self, message: Message) -> None:
        self._asked.pop(int(message["file"]), None)
        self._show_questions()

    def _give(self, arrival: Arrival, state: TensorInput) -> None:
        if arrival.is_picture:
            state.take_picture(arrival.array, arrival.name)
        else:
            state.take_array(arrival.array, arrival.name)
        self._show(state)
        self._stage.tell(f"{state.name} is {arrival.name} now")

    def _tell_too_late(self, name: str) -> None:
        self._stage.tell(f"{name} was for inputs that are not here any more: drop it again", "bad")

    # ---- drawing

    def _show_questions(self) -> None:
        asked = {
            number: (arrival.name, {state.index: state.name for state in fits})
            for number, (arrival, fits) in self._asked.items()
        }
        self._stage.browser.show(
            html={"ask": ask_view(asked)}, **({"reveal": "ask"} if asked else {})
        )

    def _show(self, state: Input) -> None:
        state.touched = True
        self._stage.browser.show(html={f"input-{state.index}": input_body(state)})
        self._changed()

    def _show_preview(self, state: Input) -> None:
        state.touched = True
        self._stage.browser.show(html={f"input-{state.index}-preview": input_preview(state)})
        self._changed()


def _take(state: TensorInput, array: Array, name: str) -> None:
    """What came out of a file: the pixels of a picture, or the array itself. Raises ValueError."""
    if is_picture_file(name):
        state.take_picture(array, name)
    else:
        state.take_array(array, name)
