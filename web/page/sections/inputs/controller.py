"""The inputs section: its cards, and files that are dropped for inputs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any

from page.browser import Message
from page.core.palette import Command
from page.core.session import Session
from page.core.state import AppState
from page.sections.inputs.controls import InputControls
from page.sections.inputs.pin_dims import exported_with, find_culprit, is_about_sizes, suspects
from page.sections.inputs.view import ask_view, inputs_card
from page.shared.inputs.inputs import TensorInput
from page.shared.inputs.match_inputs import (
    PICTURE,
    SOUND,
    Arrival,
    fill_input,
    is_picture_file,
    is_sound_file,
    left_text,
    match_inputs,
    misfit_text,
    read_arrivals,
)
from page.shared.inputs.photos import LARGEST, Photo
from page.shared.inputs.preview import loading_view
from page.shared.inputs.sounds import LONGEST_SECONDS
from page.shared.npy import NpyError, TakenError

ASSIGNING = "assigning files to inputs"  # as errors of it are called
ManyPictures = Callable[[Sequence[Any], TensorInput], Awaitable[None]]


class InputController(InputControls):
    def __init__(self, state: AppState, changed: Callable[[], None]) -> None:
        super().__init__(state, changed)
        self._asked: dict[int, tuple[Arrival, list[TensorInput]]] = {}
        self._next_question = 0
        self._drawn = ""  # the program whose inputs were drawn last
        self.live: Callable[[], bool] = lambda: False  # whether inputs are answered live
        # Answers more pictures than there are inputs for, one after the other.
        self.many_pictures: ManyPictures | None = None
        self._camera: int | None = None  # the input whose camera is open
        self._frame: Photo | None = None  # the last picture of a camera
        state.commands.append(self._commands)

    def _commands(self) -> Iterator[Command]:
        if self._inputs:
            yield Command(
                "Reset inputs", "reset-inputs", view="run", kind="Run", also="clear", late=True
            )

    def draw(self) -> None:
        """Draw all inputs of the session's method; open questions are dropped."""
        self._asked.clear()
        session = self._state.session
        name = session.source.name if session is not None else ""
        anew = name != self._drawn
        if anew:  # pads show drawings of another program, and its camera is closed
            self._camera = None
            self._state.show(inputs="")
            self._wording = None
        self._drawn = name
        card = (
            inputs_card(session.inputs, self._tokenizer_name, self._picture_url)
            if session is not None and session.method
            else ""
        )
        self._state.show(ask="", inputs=card)
        if anew:
            self._paint_pads(self._inputs)

    def on_reset_inputs(self, message: Message) -> None:
        session = self._state.session
        if session is None:
            return
        method, before = session.method, session.reset_inputs()
        self._draw_anew()

        def undo() -> None:
            session.restore_inputs(method, before)
            if session is self._state.session and session.method == method:
                self._draw_anew()

        if any(state.touched for state in before):
            self._state.undo.offer("Inputs reset.", undo)

    def _draw_anew(self) -> None:
        self._drawn = ""
        self.draw()
        self._changed()

    async def on_npy(self, message: Message) -> None:
        """Load a file into one input; an archive is matched by names instead, and several pictures
        are answered one after the other."""
        state = self._tensor(message)
        if len(message["files"]) > 1:
            await self.accept_files(message["files"], state)
            return
        file = message["files"][0]
        name = self._state.browser.source(file).name
        if name.lower().endswith(".npz"):
            await self.accept_files([file])
            return
        problem = ""
        self._tell_loading(name, state)
        try:
            (arrival,) = await self._arrivals(file, state.sound_settings.rate)
            if state in self._inputs:
                fill_input(arrival, state)
        except ValueError as error:  # also NpyError
            problem = str(error)
        if state not in self._inputs:
            self._tell_too_late(name)
        elif problem:
            state.error = problem
            self._show_preview(state)
            self._state.tell(f"{name} could not be loaded", "bad")
            self._state.browser.show(reveal=f"input-{state.index}-preview")
        else:
            self._show(state)
            self._tell_given(arrival, state)
            self._state.succeeded(ASSIGNING)

    def _tell_loading(self, name: str, state: TensorInput | None = None) -> None:
        """Show at once that a file is being read, which may take a while."""
        self._state.tell(f"Loading {name}", "busy")
        if state is not None:
            shown = {f"input-{state.index}-preview": loading_view(name)}
            self._state.browser.show(html=shown)

    def _tell_given(self, arrival: Arrival, state: TensorInput) -> None:
        self._state.tell(f"{arrival.name} loaded into {state.title or state.name}")

    async def _arrivals(self, file: Any, rate: int) -> list[Arrival]:
        """Read the arrays of a file; a sound at this sample rate. Raises ValueError."""
        browser = self._state.browser
        name = browser.source(file).name
        if is_sound_file(name):
            samples = await browser.hear(file, rate, LONGEST_SECONDS)
            return [Arrival(name, name.rpartition(".")[0], samples, SOUND, file)]
        if is_picture_file(name):
            return [await self._decoded(file, name)]
        return read_arrivals(await browser.read(file), name)

    async def _decoded(self, file: Any, name: str) -> Arrival:
        photo = await self._state.browser.decode(file, LARGEST)
        return Arrival(name, name.rpartition(".")[0], kind=PICTURE, photo=photo)

    # ---- the camera

    def on_camera_open(self, message: Message) -> None:
        """Ask for the first picture of a camera, where inputs are answered live."""
        self._camera = self._tensor(message).index
        self.ask_for_frame()

    def on_camera_frame(self, message: Message) -> None:
        self._take_frame(message)

    def on_camera_picture(self, message: Message) -> None:
        """Take the last picture of a camera, which is closed now."""
        self._camera = None
        self._take_frame(message)

    def _take_frame(self, message: Message) -> None:
        state = self._tensor(message)
        before, self._frame = self._frame, self._state.browser.frame(message["bitmap"])
        first = state.fill != "picture" or state.photo is not before
        state.take_picture(self._frame, "the camera")
        if before is not None:
            before.close()
        if first:
            self._show(state)
        else:
            self._show_preview(state)

    def ask_for_frame(self) -> None:
        """Ask for the next picture of the open camera, once the last picture is answered."""
        if self._camera is not None and self.live():
            self._state.browser.show(frame=self._camera)

    async def accept_example(self, data: bytes, name: str, index: int) -> None:
        """Load a card's example into an input that nobody has set. Raises ValueError."""
        states = self._inputs
        if name.lower().endswith(".npz"):
            for arrival, state in match_inputs(read_arrivals(data, name), states).placed:
                if not state.touched:
                    state.take_array(arrival.values, arrival.name)
        else:
            state_ = states[index] if index < len(states) else None
            if not isinstance(state_, TensorInput):
                return
            file = self._state.browser.file_of(data, name)
            (arrival,) = await self._arrivals(file, state_.sound_settings.rate)
            if states is not self._inputs or state_.touched:
                return
            fill_input(arrival, state_)
        self.draw()
        self._changed()

    # ---- sizes that cannot change after all

    async def explain_failure(
        self, session: Session, method: str, arrays: Sequence[Any], error: Exception
    ) -> None:
        """After a failed run, fix the size that caused it, or note the exported sizes."""
        if not is_about_sizes(error):
            return
        states = session.inputs_of(method)
        found = await find_culprit(session, method, states, arrays)
        if found is not None:
            found.state.pin(found.dim, found.explanation)
            told = [found.state]
        else:
            told = list({one.state.index: one.state for one in suspects(states)}.values())
            for state in told:
                state.note = exported_with(state)
        if session is self._state.session and session.method == method:
            for state in told:
                self._show(state)

    # ---- files dropped anywhere

    async def accept_files(self, files: Sequence[Any], target: TensorInput | None = None) -> None:
        """Load each array into the input that it fits; ask if it fits several.

        If there are more pictures than inputs for pictures, the program runs with each picture in
        turn, in the input `target` or in the first input for pictures.
        """
        session = self._state.session
        names = ", ".join(self._state.browser.source(file).name for file in files)
        if session is None:
            raise NpyError(
                f"{names} holds values for the inputs of a program: open a program first"
            )
        method = session.method
        named = [(self._state.browser.source(file).name, file) for file in files]
        pictures = [file for name, file in named if is_picture_file(name)]
        takers = [one for one in session.inputs if isinstance(one, TensorInput) and one.form]
        if self.many_pictures is not None and takers and len(pictures) > len(takers):
            others = [file for name, file in named if not is_picture_file(name)]
            if others:
                await self.accept_files(others)
            await self.many_pictures(pictures, target if target in takers else takers[0])
            return
        arrivals: list[Arrival] = []
        self._tell_loading(names)
        for file in files:
            arrivals += await self._arrivals(file, self._rate)
        if self._state.session is not session or session.method != method:
            self._tell_too_late(names)
            return
        found = match_inputs(arrivals, session.inputs)
        for arrival, state in found.placed:
            self._give(arrival, state)
            self._state.browser.show(reveal=f"input-{state.index}")
        for question in found.unsure:
            self._asked[self._next_question] = question
            self._next_question += 1
        self._show_questions()
        told = [misfit_text(method, arrival, why) for arrival, why in found.misfits]
        left = [left_text(arrival, others) for arrival, others in found.left]
        if told:
            raise NpyError("\n\n".join(told + left))
        if left:
            raise TakenError("\n\n".join(left))
        self._state.succeeded(ASSIGNING)

    def on_place(self, message: Message) -> None:
        """Handle the answer to a question; a second click does nothing."""
        arrival, fits = self._asked.pop(int(message["file"]), (None, []))
        for state in fits:
            if arrival is not None and state.index == int(message["input"]):
                self._give(arrival, state)
        self._show_questions()

    def on_leave(self, message: Message) -> None:
        self._asked.pop(int(message["file"]), None)
        self._show_questions()

    def _give(self, arrival: Arrival, state: TensorInput) -> None:
        fill_input(arrival, state)
        self._show(state)
        self._tell_given(arrival, state)

    def _tell_too_late(self, name: str) -> None:
        self._state.tell(f"{name} came too late: drop it again", "bad")

    # ---- drawing

    def _show_questions(self) -> None:
        asked = {
            number: (arrival.name, {state.index: state.name for state in fits})
            for number, (arrival, fits) in self._asked.items()
        }
        self._state.browser.show(
            html={"ask": ask_view(asked)}, **({"reveal": "ask"} if asked else {})
        )
