"""The inputs section: what each input holds, and what its controls do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from page.browser import Browser, Message
from page.input_view import input_body, input_preview, inputs_card
from page.inputs import Input, ScalarInput, TensorInput, inputs_of
from page.npy import NpyError
from webpte import ScalarInfo, TensorInfo


class InputDesk:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._states: list[Input] = []

    def clear(self) -> None:
        self._states = []
        self._browser.show(html={"inputs": ""})

    def choose(self, infos: Sequence[TensorInfo | ScalarInfo]) -> None:
        """Fresh inputs for a method."""
        self._states = inputs_of(infos)
        self._browser.show(html={"inputs": inputs_card(self._states)})

    def arrays(self) -> list[Any]:
        return [state.array() for state in self._states]

    @property
    def problem(self) -> Input | None:
        """The first input that cannot be used as it is."""
        return next((state for state in self._states if state.error), None)

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
        state = self._states[int(message["input"])]
        if isinstance(state, ScalarInput):
            state.set_value(str(message["value"]))
            self._show_preview(state)

    async def on_npy(self, message: Message) -> None:
        state = self._tensor(message)
        file = message["files"][0]
        try:
            state.take_file(await self._browser.read(file), self._browser.source(file).name)
        except NpyError as error:
            state.error = str(error)
            self._show_preview(state)
            return
        self._show(state)

    def _tensor(self, message: Message) -> TensorInput:
        state = self._states[int(message["input"])]
        if not isinstance(state, TensorInput):
            raise TypeError(f"input {state.index} is not a tensor")
        return state

    def _show(self, state: Input) -> None:
        self._browser.show(html={f"input-{state.index}": input_body(state)})

    def _show_preview(self, state: Input) -> None:
        self._browser.show(html={f"input-{state.index}-preview": input_preview(state)})
