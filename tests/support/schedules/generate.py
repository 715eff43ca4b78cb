"""Generates and prints schedules: random steps of a few programs, determined by a seed.

Unit tests run thousands, see tests/unit/schedules/test_random_schedules.py. More, or others:

    pytest tests/unit -k schedules --schedules 100000 --seed 7

A failing schedule is shrunk and printed as Python. To look at it alone, paste it into a test:

    assert run(Schedule(seed=3, programs=("embed",), steps=(Call(...), ...))) == []
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random

from support.schedules.base import Entry, Kind, Spec
from support.schedules.kinds import KINDS

# Calls of the device that injected faults make fail.
INJECTED = (
    *("create_buffers", "create_plan", "create_pipelines", "transfer"),
    *("write", "read", "run", "run", "profile", "copy"),
)

REHEARSALS = ("profile", "tune")  # these change no state
TALKS = 0.6  # weight of programs that talk against another kind: they take long


@dataclass(frozen=True)
class Step:
    """A step of a schedule, and the number of turns of the loop before the next one."""

    turns: int = 0


@dataclass(frozen=True)
class Numbered(Step):
    """A step that takes time, identified by its number among these."""

    program: int = 0


@dataclass(frozen=True)
class Call(Numbered):
    """A call of a method.

    how is "run" (arrays come back), "gpu" (outputs stay on the GPU), "argmax", "unread", "profile",
    "tune", or "again": a profile of the last run, without inputs. `bad` spoils the first input
    ("shape", "dtype") or leaves it out ("count"). `handed` is the number of a call (and of its
    output) whose GPU tensor is the first input, if it still exists; with `native` its buffer is
    passed, like one of other code.
    """

    method: str = "forward"
    how: str = "run"
    spec: Spec = ()
    bad: str = ""
    handed: tuple[int, int] | None = None
    native: bool = False


@dataclass(frozen=True)
class Talk(Numbered):
    """A request to one of the Generators of a language model.

    how is "generate" (the first `kept` tokens of the current context, and `tokens`), "continue"
    (with `tokens`), "more" (of the latest answer), "prefill" or "reset". An answer has at most
    `most` tokens, of which `take` are read. It is greedy, or sampled with a `seed`.
    """

    generator: int = 0
    how: str = "generate"
    tokens: Spec = (1,)
    kept: int = 0
    most: int = 8
    take: int = 8
    seed: int | None = None
    penalty: float | None = None
    stop: Spec = ()
    ahead: int = 16


@dataclass(frozen=True)
class Cancel(Step):
    """The cancellation of the call of that number, if it has not ended."""

    call: int = 0


@dataclass(frozen=True)
class Close(Step):
    program: int = 0


@dataclass(frozen=True)
class Recover(Step):
    """The recovery of a program on a new device or on its own; it takes time."""

    program: int = 0
    fresh: bool = False


@dataclass(frozen=True)
class Destroy(Step):
    """The destruction of the GPU tensors that a call returned."""

    call: int = 0


@dataclass(frozen=True)
class Read(Step):
    """The reading of the GPU tensors that a call returned."""

    call: int = 0


@dataclass(frozen=True)
class Inject(Step):
    """A fault of a program's device: `error`, "memory" or "loss"."""

    program: int = 0
    error: str = "error"
    after: int = 1
    method: str | None = None
    at_result: bool = False


@dataclass(frozen=True)
class Settle(Step):
    """A wait until all calls have ended."""


@dataclass(frozen=True)
class Schedule:
    """Programs by kind, and the steps. `seed` determines how long the device takes."""

    seed: int
    programs: tuple[str, ...]
    steps: tuple[Step, ...]
    device: str = "recording"  # or "numpy", or in the browser "webgpu"

    def __repr__(self) -> str:
        steps = "".join(f"        {_short(step)},\n" for step in self.steps)
        device = "" if self.device == "recording" else f", device={self.device!r}"
        return (
            f"Schedule(\n    seed={self.seed}, programs={self.programs!r}{device},\n"
            f"    steps=(\n{steps}    ),\n)"
        )


def _short(step: Step) -> str:
    """Format a step without fields that have their defaults."""
    default = type(step)()
    fields = [(name, getattr(step, name)) for name in step.__dataclass_fields__]
    given = [f"{name}={value!r}" for name, value in fields if value != getattr(default, name)]
    return f"{type(step).__name__}({', '.join(given)})"


# Generation


class _Maker:
    """A generator of one schedule from random numbers."""

    def __init__(self, rng: Random, device: str, faults: bool) -> None:
        self.rng = rng
        self.device = device
        self.faults = faults
        kinds = [kind for kind in KINDS if device != "numpy" or not KINDS[kind].strict]
        weights = [TALKS if KINDS[kind].talks else 1 for kind in kinds]
        self.programs = tuple(rng.choices(kinds, weights, k=rng.choice([1, 1, 1, 1, 2, 2, 3])))
        self.steps: list[Step] = []
        self.calls: list[Numbered] = []

    def make(self) -> Schedule:
        rng = self.rng
        makers: list[tuple[Callable[[], Step | None], int]] = [
            (self._call, 50),
            (self._burst, 4),
            (self._cancel, 10),
            (Settle, 8),
            (lambda: Close(self._turns(), self._program()), 3),
            (lambda: Recover(self._turns(), self._program(), rng.random() < 0.5), 5),
            (self._tensors, 8),
            (self._inject, 8 if self.faults else 0),
            (lambda: Inject(0, self._program(), "loss"), 1 if self.device == "webgpu" else 0),
        ]
        functions, weights = zip(*makers, strict=True)
        wanted = rng.randint(2, 8)
        while len(self.steps) < wanted:
            step = rng.choices(functions, weights)[0]()
            if step is not None:
                self._add(step)
        self._add(Settle())
        for program, kind in enumerate(self.programs):
            if self.faults and rng.random() < 0.2:
                self._add(Recover(0, program, fresh=True))
                self._add(Settle())
            for step in self._last_steps(program, KINDS[kind]):
                self._add(step)
                self._add(Settle())
        return Schedule(rng.randrange(1 << 16), self.programs, tuple(self.steps), self.device)

    def _last_steps(self, program: int, kind: Kind) -> Iterator[Step]:
        """Yield steps that show whether a program still works."""
        if kind.talks:
            talk = self._talk_of(program)
            yield replace(talk, how="generate", tokens=talk.tokens or (1,), most=4, take=4)
            return
        for method in kind.entries:
            call = self._call_of(program, method)
            yield replace(call, how="run", bad="", handed=None, native=False)

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if isinstance(step, Numbered):
            self.calls.append(step)

    def _turns(self) -> int:
        return self.rng.choice([0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 25])

    def _program(self) -> int:
        return self.rng.randrange(len(self.programs))

    def _call(self) -> Step:
        program = self._program()
        if KINDS[self.programs[program]].talks and self.rng.random() < 0.8:
            return self._talk_of(program)
        return self._call_of(program, self.rng.choice(list(KINDS[self.programs[program]].entries)))

    def _call_of(self, program: int, method: str) -> Call:
        rng, entry = self.rng, KINDS[self.programs[program]].entries[method]
        hows = ["run"] * 6 + ["unread", "unread", "argmax", "argmax"]
        if self.device != "numpy":
            hows += ["gpu"] * 4 + ["profile", "profile", "again"]
        if self.device == "recording":  # elsewhere the results would be stored
            hows += ["tune"]
        how = rng.choice(hows)
        if how == "argmax" and len(entry.gives) > 1:
            how = "run"
        spec = entry.specs(rng)
        bads = ["shape", "dtype"] if how in REHEARSALS else ["shape", "dtype", "count"]
        bad = rng.choice(bads) if rng.random() < 0.08 and spec else ""
        handed = None if bad else self._handed(entry)
        native = handed is not None and rng.random() < 0.3
        return Call(self._turns(), program, method, how, spec, bad, handed, native)

    def _talk_of(self, program: int) -> Talk:
        rng = self.rng
        how = rng.choice(
            ["generate"] * 5 + ["continue"] * 5 + ["more"] * 4 + ["prefill", "prefill", "reset"]
        )
        tokens = tuple(rng.randrange(12) for _ in range(rng.choice([1, 1, 2, 3, 4, 6])))
        most = rng.choice([0, 1, 3, 6, 6, 20])
        drawn = rng.random() < 0.5
        return Talk(
            self._turns(),
            program,
            generator=int(rng.random() < 0.25),
            how=how,
            tokens=() if how == "continue" and rng.random() < 0.2 else tokens,
            kept=rng.choice([0, 0, 1, 3, 5, 8, 99, 99]),
            most=most,
            take=rng.choice([1, 1, 2, 3, 4, 6, most]),
            seed=rng.randrange(3) if drawn else None,
            penalty=1.4 if drawn and rng.random() < 0.3 else None,
            stop=(rng.randrange(12),) if rng.random() < 0.2 else (),
            ahead=rng.choice([1, 2, 4, 16, 16]),
        )

    def _handed(self, entry: Entry) -> tuple[int, int] | None:
        """Return an earlier call whose GPU tensor, if it exists, can be an input here."""
        if entry.takes is None or self.rng.random() < 0.4:
            return None
        found = [
            (number, output)
            for number, call in enumerate(self.calls)
            if isinstance(call, Call) and call.how == "gpu"
            for output, gives in enumerate(self._entry(call).gives)
            if gives == entry.takes
        ]
        return self.rng.choice(found) if found else None

    def _entry(self, call: Call) -> Entry:
        return KINDS[self.programs[call.program]].entries[call.method]

    def _burst(self) -> None:
        """Add successive calls that alternate between a few inputs."""
        program = self._program()
        method = self.rng.choice(list(KINDS[self.programs[program]].entries))
        calls = [self._call_of(program, method) for _ in range(3)]
        for _ in range(6):
            self._add(replace(self.rng.choice(calls), turns=0, handed=None, native=False))
            self._add(Settle())

    def _cancel(self) -> Step | None:
        if not self.calls:
            return None
        latest = len(self.calls) - 1  # the likeliest to be unfinished
        number = latest if self.rng.random() < 0.5 else self.rng.randrange(len(self.calls))
        return Cancel(self._turns(), number)

    def _tensors(self) -> Step | None:
        calls = enumerate(self.calls)
        made = [number for number, c in calls if isinstance(c, Call) and c.how == "gpu"]
        if not made:
            return None
        kind = self.rng.choice([Destroy, Read])
        return kind(self._turns(), self.rng.choice(made))

    def _inject(self) -> Step | None:
        rng = self.rng
        if self.device == "numpy":
            return None
        method = rng.choice((None, None, *INJECTED))
        error = rng.choice(["error", "error", "memory", "loss"])
        after = rng.choice([1, 1, 2, 3, 5])
        return Inject(0, self._program(), error, after, method, rng.random() < 0.5)


def schedules(seed: int, count: int, start: int = 0) -> Iterator[Schedule]:
    """Yield schedules; each depends only on the seed and its number."""
    for number in range(start, start + count):
        rng = Random(f"{seed}:{number}")
        device = "numpy" if rng.random() < 0.08 else "recording"
        yield _Maker(rng, device, faults=rng.random() < 0.5).make()


def browser_schedules(seed: int, count: int) -> Iterator[Schedule]:
    """Yield schedules for WebGPU, where no faults can be injected."""
    for number in range(count):
        yield _Maker(Random(f"{seed}:{number}"), "webgpu", faults=False).make()
