"""One open program with its inputs, results and calls.

A session is built completely before it replaces the old one, which stays if anything fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from page.browser import Source
from page.core.history import History, PastCall
from page.core.picture_tiles import PictureTiles, tiles_of
from page.core.runner import Runner, Timing
from page.core.sound_stream import SoundStream, stream_of
from page.shared.html.markup import Html
from page.shared.inputs.inputs import Input, TensorInput, carry_over, inputs_of
from page.shared.outputs.renderers.base import Backdrop, Choice, Output
from webpte import MethodInfo, Program
from webpte.errors import InputError
from webpte.inspection.report import Trace

DEVICE_NAMES = {"webgpu": "WebGPU", "numpy": "NumPy (CPU)"}
Ability = Callable[["Session"], bool]
Held = tuple[object, ...]  # the contents of a method's inputs; equal for equal contents


@dataclass(eq=False)
class Results:
    """The results of a run, and the calls that led to them.

    calls     all calls up to the last; empty if unknown, for the reason in `lost`
    note      a text about later events, or ""
    verdicts  results of comparisons, by output
    """

    method: str
    device: str
    outputs: list[Output]
    held: Held
    calls: tuple[PastCall, ...]
    lost: str = ""
    note: str = ""
    timing: Timing = field(default_factory=Timing)
    verdicts: dict[int, Html] = field(default_factory=dict)
    backdrop: Backdrop | None = None  # None until it is shown


@dataclass(eq=False)
class Session:
    source: Source
    methods: Mapping[str, MethodInfo]
    program: Program
    device: str
    stateful: bool = False  # its results depend on earlier calls
    constant_values: Mapping[str, str] = field(default_factory=dict)
    fingerprint: str = ""  # of its contents; "" if they could not be read again
    runner: Runner = field(default_factory=Runner)
    method: str = ""
    runs: Counter[str] = field(default_factory=Counter)  # by method, since it was built
    results: dict[str, Results] = field(default_factory=dict)  # the last results, by method
    traces: dict[str, Trace] = field(default_factory=dict)  # the last traces, by method
    history: History = field(default_factory=History)
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by output, of its last dim
    choices: dict[str, dict[int, Choice]] = field(default_factory=dict)  # by method and output
    losses: int = 0  # of the GPU, since work on the program last succeeded
    _inputs: dict[str, list[Input]] = field(default_factory=dict)  # by method
    # What `can` has found out, for this source and method.
    _abilities: tuple[Source, str, dict[Ability, bool]] | None = None

    def __post_init__(self) -> None:
        if not self.method:
            runnable = [info.name for info in self.methods.values() if not info.is_constant]
            self.method = "forward" if "forward" in runnable else next(iter(runnable), "")

    def can(self, ability: Ability) -> bool:
        """Tell whether the program has an ability; found out once for its source and method."""
        known = self._abilities
        if known is None or known[0] is not self.source or known[1] != self.method:
            known = self._abilities = self.source, self.method, {}
        if ability not in known[2]:
            known[2][ability] = ability(self)
        return known[2][ability]

    @property
    def inputs(self) -> list[Input]:
        """The inputs of the chosen method."""
        return self.inputs_of(self.method) if self.method else []

    def inputs_of(self, method: str) -> list[Input]:
        if method not in self._inputs:
            self._inputs[method] = self._fresh_inputs(method)
        return self._inputs[method]

    @property
    def problem(self) -> Input | None:
        """The first input of the chosen method with an error."""
        return next((state for state in self.inputs if state.error), None)

    @property
    def set_inputs(self) -> Mapping[str, list[Input]]:
        """The inputs by method, of methods that were shown."""
        return self._inputs

    def reset_inputs(self) -> list[Input]:
        """Reset the inputs of the chosen method, and return the old ones."""
        return self._inputs.pop(self.method, [])

    def restore_inputs(self, method: str, inputs: list[Input]) -> None:
        """Restore the inputs from before `reset_inputs`."""
        self._inputs[method] = inputs

    def _fresh_inputs(self, method: str) -> list[Input]:
        card = self.source.card
        return inputs_of(self.methods[method].inputs, card.inputs if card is not None else ())

    @property
    def shown(self) -> Results | None:
        """The results of the chosen method."""
        return self.results.get(self.method)

    def choose(self, method: str) -> None:
        """Choose a method; inputs that are new start with the values of other methods."""
        if method not in self.methods or self.methods[method].is_constant:
            raise ValueError(f"{self.source.name} has no method {method!r} that can be run")
        before = [state for states in self._inputs.values() for state in states] + self.inputs
        self.method = method
        if method not in self._inputs:
            carry_over(before, self.inputs)  # of inputs with the same name, the last method's count
        self.runner.reset()
        if self.shown is not None and self.shown.device == self.device:
            now, known = self.runner.timing, self.shown.timing
            self.runner.timing = replace(known, load=now.load, stages=now.stages)

    def continue_from(self, old: Session) -> None:
        """Take over inputs, results and choices of the same file, as far as they fit."""
        if old.source.name != self.source.name:
            return
        for method, before in old._inputs.items():
            if method in self.methods and not self.methods[method].is_constant:
                self._inputs[method] = self._fresh_inputs(method)
                carry_over(before, self._inputs[method])
        self.labels, self.choices = old.labels, old.choices
        if old.method in self._inputs:
            self.method = old.method
        if old.source.data is self.source.data and old.source.extra == self.source.extra:
            self.results = old.results
            if self.stateful:
                self._note("the program was loaded again, and its state was reset")

    @property
    def near(self) -> str:
        """The trait by which an encoder compares texts, in the words of its card."""
        card = self.source.card
        return (card.near if card is not None else "") or "meaning"

    def choice(self, output: int) -> Choice:
        """Return how an output of the chosen method is shown."""
        return self.choices.setdefault(self.method, {}).setdefault(output, Choice())

    def stream(self) -> SoundStream | PictureTiles | None:
        """Return the calls that the sound or picture in an input takes, if it takes several."""
        card = self.source.card
        tensors = [one for one in self.inputs if isinstance(one, TensorInput)]
        if card is not None and any(one.sound for one in tensors):
            return stream_of(self.inputs, card.outputs)
        if card is not None and any(one.tiled_size for one in tensors):
            return tiles_of(self.inputs, card.outputs)
        return None

    @property
    def has_host_times(self) -> bool:
        """Whether operators of the method run on the CPU, whose times the file card shows."""
        rows = self.program.report
        return any(row.where == "host" for row in rows if row.method == self.method)

    # ---- runs

    def held(self) -> Held:
        return tuple(state.held for state in self.inputs)

    def finish_run(self, method: str, arrays: Sequence[Any], held: Held, values: Any) -> None:
        """Keep the results of the first of several runs, which are shown."""
        self.count_run(method, arrays)
        infos = self.methods[method].outputs
        outputs = [
            Output(index, info.name, value)
            for index, (info, value) in enumerate(zip(infos, values, strict=True))
        ]
        calls = self.history.calls if self.stateful else (PastCall(method, tuple(arrays)),)
        self.results[method] = Results(
            method, self.device, outputs, held, calls, self.history.lost, timing=self.runner.timing
        )

    def count_run(self, method: str, arrays: Sequence[Any]) -> None:
        self.runs[method] += 1
        if self.stateful:
            self.history.add(method, arrays)

    def fail_run(self, method: str, error: Exception) -> None:
        if self.stateful and not isinstance(error, InputError):  # which is raised before a run
            self.history.lose("a run failed, and may have changed it")
        if method in self.results:
            self.results[method].note = "the last run failed"

    def cancel_run(self, method: str) -> None:
        """Note that a run was cancelled: it may have changed the state, or not.

        Results of a program without state still belong to their inputs.
        """
        self.lose_state("a run was cancelled, and may have changed it")
        if self.stateful and method in self.results:
            self.results[method].note = "the last run was cancelled"

    def lose_state(self, reason: str) -> None:
        """Give up the history because something else than a run changes the program's state."""
        if self.stateful:
            self.history.lose(reason)

    def start_over(self) -> None:
        """Reset the history: the program was rebuilt with the state of the file."""
        self.runs.clear()
        self.history = History()
        if self.stateful:
            self._note("the program was rebuilt, and its state was reset")

    def _note(self, what_came_since: str) -> None:
        for results in self.results.values():
            results.note = what_came_since

    def age(self) -> list[str]:
        """Return why the results are outdated; [] if they are not."""
        results = self.shown
        if results is None:
            return []
        told = []
        if results.device != self.device:
            told.append(f"computed on {DEVICE_NAMES[results.device]}")
        if results.held != self.held():
            told.append("inputs changed")
        return [*told, results.note] if results.note else told
