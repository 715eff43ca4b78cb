"""One opened program with all that was done with it: inputs, results, and the calls it has had.

A session is made complete and then takes the place of the one before it, which stays as it was if
anything goes wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from page.browser import Source
from page.html.markup import Html
from page.inputs.inputs import Input, carry_over, inputs_of
from page.npy import Array
from page.outputs.renderers.base import Choice, Output
from page.parts.run_view import Timing
from page.session.history import History, PastCall
from page.session.runner import Runner
from webpte import MethodInfo, Program
from webpte.errors import InputError
from webpte.report import Trace

DEVICE_NAMES = {"webgpu": "WebGPU", "numpy": "NumPy (CPU)"}
Held = tuple[object, ...]  # what the inputs of a method held; equal if they hold the same


@dataclass(eq=False)
class Results:
    """What a run returned, and of what.

    calls     all that led to them, their own last; empty if that is not known, as `lost` says
    note      what came in between since, if anything
    verdicts  of comparisons, by output
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
    # what went in as a picture, and its (height, width); None until someone wants to see it
    backdrop: tuple[Array | None, tuple[int, int]] | None = None


@dataclass(eq=False)
class Session:
    source: Source
    methods: Mapping[str, MethodInfo]
    program: Program
    device: str
    stateful: bool = False  # its results depend on the calls before
    constant_values: Mapping[str, str] = field(default_factory=dict)
    runner: Runner = field(default_factory=Runner)
    method: str = ""
    runs: Counter[str] = field(default_factory=Counter)  # by method, since it was built
    results: dict[str, Results] = field(default_factory=dict)  # by method, the last ones
    traces: dict[str, Trace] = field(default_factory=dict)  # by method, the last ones
    history: History = field(default_factory=History)
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)  # by output, of its last dim
    choices: dict[str, dict[int, Choice]] = field(default_factory=dict)  # by method and output
    _inputs: dict[str, list[Input]] = field(default_factory=dict)  # by method

    def __post_init__(self) -> None:
        if not self.method:
            runnable = [info.name for info in self.methods.values() if not info.is_constant]
            self.method = "forward" if "forward" in runnable else next(iter(runnable), "")

    @property
    def inputs(self) -> list[Input]:
        """Of the chosen method."""
        return self.inputs_of(self.method) if self.method else []

    def inputs_of(self, method: str) -> list[Input]:
        if method not in self._inputs:
            self._inputs[method] = self._fresh_inputs(method)
        return self._inputs[method]

    @property
    def set_inputs(self) -> Mapping[str, list[Input]]:
        """By method, of those that were on the page."""
        return self._inputs

    def reset_inputs(self) -> list[Input]:
        """Of the chosen method, as they are for a program that nobody has touched; what was."""
        return self._inputs.pop(self.method, [])

    def restore_inputs(self, method: str, inputs: list[Input]) -> None:
        """As they were before `reset_inputs`."""
        self._inputs[method] = inputs

    def _fresh_inputs(self, method: str) -> list[Input]:
        card = self.source.card
        return inputs_of(self.methods[method].inputs, card.inputs if card is not None else ())

    @property
    def shown(self) -> Results | None:
        """The results of the chosen method."""
        return self.results.get(self.method)

    def choose(self, method: str) -> None:
        """Another method. Its inputs are as they were; new ones start with the values of others."""
        if method not in self.methods or self.methods[method].is_constant:
            raise ValueError(f"{self.source.name} has no method {method!r} that can be run")
        before = [state for states in self._inputs.values() for state in states] + self.inputs
        self.method = method
        if method not in self._inputs:
            carry_over(before, self.inputs)  # of the same name, those of the last method count
        self.runner.reset()
        if self.shown is not None and self.shown.device == self.device:
            now, known = self.runner.timing, self.shown.timing
            self.runner.timing = replace(known, load=now.load, stages=now.stages)

    def continue_from(self, old: Session) -> None:
        """Take over what was done with the same file before, as far as it fits."""
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
                self._note("the program was loaded again since, and its state starts over")

    def choice(self, output: int) -> Choice:
        """How an output of the chosen method is seen."""
        return self.choices.setdefault(self.method, {}).setdefault(output, Choice())

    # ---- runs

    def held(self) -> Held:
        return tuple(state.held for state in self.inputs)

    def finish_run(self, method: str, arrays: Sequence[Any], held: Held, values: Any) -> None:
        """The first run of several: its results are the ones to show."""
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
        if self.stateful and not isinstance(error, InputError):  # which is found before a run
            self.history.lose("a run failed, and nobody knows what it had changed by then")
        if method in self.results:
            self.results[method].note = "the last run failed"

    def cancel_run(self, method: str) -> None:
        """Nobody waited for its end: it may have had its effect on state, or not."""
        self.lose_state("a run was cancelled, and nobody knows whether it had happened by then")
        if method in self.results:
            self.results[method].note = "the last run was cancelled"

    def lose_state(self, reason: str) -> None:
        """Something else than a run changes the program's state."""
        if self.stateful:
            self.history.lose(reason)

    def start_over(self) -> None:
        """The program was rebuilt: its state is that of the file again."""
        self.runs.clear()
        self.history = History()
        if self.stateful:
            self._note("the program was rebuilt since, and its state starts over")

    def _note(self, what_came_since: str) -> None:
        for results in self.results.values():
            results.note = what_came_since

    def age(self) -> list[str]:
        """What sets the results apart from a run with what is on the page now; [] if nothing."""
        results = self.shown
        if results is None:
            return []
        told = []
        if results.device != self.device:
            told.append(f"computed on {DEVICE_NAMES[results.device]}")
        if results.held != self.held():
            told.append("for earlier inputs")
        return [*told, results.note] if results.note else told
