"""The inputs section: what each input holds, what its controls do, and what is dropped for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from page.browser import Message
from page.input_view import ask_view, input_body, input_preview, inputs_card
from page.inputs import Input, ScalarInput, TensorInput
from page.npy import NpyError
from page.placing import Arrival, misfit_text, place, read_arrivals
from page.stage import Stage


class InputDesk:
    def __init__(self, stage: Stage, changed: Callable[[], None]) -> None:
        """`changed` is called whenever an input holds something else."""
        self._stage = stage
        self._changed = changed
        self._asked: dict[int, tuple[Arrival, list[TensorInput]]] = {}
        self._next_question = 0

    def draw(self) -> None:
        """All of it, for the session and its method. Questions about other inputs are over."""
        self._asked.clear()
        session = self._stage.session
        card = inputs_card(session.inputs) if session is not None and session.method else ""
        self._stage.show(ask="", inputs=card)

    @property
    def problem(self) -> Input | None:
        """The first input that cannot be used as it is."""
        return next((state for state in self._states if state.error), None)

    @property
    def _states(self) -> list[Input]:
        session = self._stage.session
        return session.inputs if session is not None else []

    # ---- controls of one input

    def on_fill(self, message: Message) -> None:
        state = self._tensor(message)
        if message["value"] == "file":
            state.error = "Choose a .npy file with “Load .npy”, or drop one onto this input."
            self._show_preview(state)
            return
        state.set_fill(str(message["value"]))
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
        data = await self._stage.browser.read(file)
        if state not in self._states:
            self._tell_too_late(name)
            return
        try:
            state.take_file(data, name)
        except NpyError as error:
            state.error = str(error)
            self._show_preview(state)
            return
        self._show(state)

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
            arrivals += read_arrivals(await self._stage.browser.read(file), name)
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
        self._stage.browser.show(html={f"input-{state.index}": input_body(state)})
        self._changed()

    def _show_preview(self, state: Input) -> None:
        self._stage.browser.show(html={f"input-{state.index}-preview": input_preview(state)})
        self._changed()
