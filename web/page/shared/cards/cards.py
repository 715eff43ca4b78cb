"""Cards of the gallery: a model's description, its files, the meaning of its values.

Two kinds of files are read, cards of the samples that ship, and cards of models that `serve.py
models` installed. They name files in different places: a sample by purpose,

    "files": {"program": "digits.pte", "example": "digits.npy", "tokenizer": "..."}

an installed model next to its other fields (`"program": "model.pte"`); its `files` are hashes.
`docs/inside/extending.md` has the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from page.shared.cards.fills import CHOSEN, FILLS

LAYOUTS = ("NCHW", "NHWC", "CHW", "HWC", "HW")
CHANNELS = ("RGB", "BGR")
GROUPS = ("demo", "test")  # under which the gallery lists a card
BOXES = ("xyxy", "xywh", "cxcywh", "yxyx")  # outputs/renderers/boxes.py says what each is
STARTS = tuple(name for name in FILLS if name not in CHOSEN)  # of inputs; others need a file

# The fields of a card; any other is reported as an error, since it is probably misspelled.
_FILES = ("program", "example", "check", "picture", "tokenizer", "tokenizer_config")
_FIELDS = (
    *("name", "title", "task", "licence", "size", "about", "order", "icon", "group"),
    *("files", "questions", "limits", "near", "view", "inputs", "outputs"),
)
_INSTALLED = (*_FILES, "notes", "source", "seen", "report", "verified", "key")
_PLACED = ("folder", "problem", "compiled")  # by the server
_PICTURE = ("layout", "channels", "mean", "std", "range")
_INPUT = ("name", "meaning", "hidden", *_PICTURE, "overlap", "rate", "hop", "fill")
_OUTPUT = (
    "name",
    "meaning",
    "hidden",
    *_PICTURE,
    "labels",
    "boxes",
    "mask",
    "threshold",
    "feeds",
    "curve",
)


class CardError(ValueError):
    """The card cannot be used, or names files that cannot."""


class NoCardError(CardError):
    """The gallery has no model of this name."""


@dataclass(frozen=True)
class CardValue:
    """The meaning of one input or output.

    hidden   not shown at first, such as the state of a model
    layout   of pictures, such as NCHW
    order    of their channels: RGB or BGR
    mean     subtracted from pixels of 0 to 1, per channel
    std      divides the rest; both are empty if pixels stay unchanged
    rate     of sound: samples per second
    hop      of frames of a sound: new samples in each; the whole sound is used, in several calls
    overlap  of a picture that is larger than an input takes: of tiles, each answered by a call
    feeds    the name of the input that gets this output in the next call
    curve    an output is a curve along its first dim
    labels   the address of the file with a name per line, for the last dim
    names    or the names themselves
    fill     the initial fill of an input, such as "draw", if there is no example
    boxes    an output has boxes, whose four numbers are "xyxy", "xywh", "cxcywh" or "yxyx"
    mask     an output marks pixels of the input picture
    threshold  from which a box or a pixel counts; 0: the default
    """

    name: str = ""
    meaning: str = ""
    hidden: bool = False
    layout: str = ""
    order: str = "RGB"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    rate: int = 0
    hop: int = 0
    overlap: int = 0
    feeds: str = ""
    curve: bool = False
    labels: str = ""
    names: tuple[str, ...] = ()
    fill: str = ""
    boxes: str = ""
    mask: bool = False
    threshold: float = 0.0


@dataclass(frozen=True)
class Card:
    """A card of the gallery. All addresses are relative to the page."""

    name: str
    title: str
    program: str
    view: str = ""  # the view that opens; "": the program says
    task: str = ""
    licence: str = ""
    about: str = ""
    size: int = 0  # bytes of the program
    examples: tuple[str, ...] = ()
    check: str = ""  # inputs with the outputs of a reference, see `Program.check`
    picture: str = ""  # of the card, which may be an example of an input
    tokenizer: str = ""
    tokenizer_config: str = ""
    questions: tuple[str, ...] = ()  # that a chat may begin with
    limits: str = ""  # a sentence about abilities that it lacks, unlike others of its kind
    near: str = ""  # the nearness of texts for an encoder; "": in meaning
    inputs: tuple[CardValue, ...] = ()
    outputs: tuple[CardValue, ...] = field(default_factory=tuple)
    raw: Mapping[str, Any] = field(default_factory=dict, compare=False)  # as it was written


def read_card(raw: Mapping[str, Any]) -> Card:
    """Read a card of `gallery.json`, with its `folder`. Raises CardError."""
    name = str(raw.get("name") or "a card without a name")
    if "problem" in raw:
        raise CardError(f"{name}: {raw['problem']}")
    files = raw.get("files")
    named: Mapping[str, Any] = {**raw, **files} if isinstance(files, Mapping) else raw
    folder = str(raw.get("folder", ""))
    try:
        _check_fields(raw)
        _one_of(GROUPS, raw, "group")
    except ValueError as error:
        raise CardError(f"the card of {name} cannot be used: {error}") from error
    program = named.get("program")
    if not program:
        raise CardError(f"the card of {name} names no program: add files.program, its .pte")
    example = named.get("example") or ()
    try:
        return Card(
            name=name,
            title=str(raw.get("title") or name),
            program=folder + str(program),
            view=str(raw.get("view") or ""),
            task=str(raw.get("task") or ""),
            licence=str(raw.get("licence") or ""),
            about=str(raw.get("about") or raw.get("notes") or ""),
            size=int(raw.get("size") or 0),
            examples=tuple(folder + str(one) for one in _listed(example)),
            check=_address(folder, named.get("check")),
            picture=_address(folder, named.get("picture")),
            tokenizer=_address(folder, named.get("tokenizer")),
            tokenizer_config=_address(folder, named.get("tokenizer_config")),
            questions=tuple(map(str, raw.get("questions") or ())),
            limits=str(raw.get("limits") or ""),
            near=str(raw.get("near") or ""),
            inputs=tuple(_values(raw, "inputs", _INPUT, folder)),
            outputs=tuple(_values(raw, "outputs", _OUTPUT, folder)),
            raw=raw,
        )
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise CardError(f"the card of {name} cannot be used: {error}") from error


def _check_fields(raw: Mapping[str, Any]) -> None:
    if isinstance(raw.get("files"), Mapping):  # of a sample
        _only(_FIELDS, raw, "", hidden=_PLACED)
        _only(_FILES, raw["files"], "files.")
    else:
        _only((*_FIELDS, *_INSTALLED), raw, "", hidden=_PLACED)


def _only(
    known: Sequence[str], raw: Mapping[str, Any], where: str, hidden: Sequence[str] = ()
) -> None:
    for field_name in raw:
        if field_name not in known and field_name not in hidden:
            near = get_close_matches(field_name, known, 1)
            meant = f" Did you mean {where}{near[0]}?" if near else ""
            raise ValueError(
                f"{where}{field_name} is not a field of a card.{meant} There are {', '.join(known)}"
            )


def _values(
    raw: Mapping[str, Any], key: str, known: Sequence[str], folder: str
) -> Iterator[CardValue]:
    for index, one in enumerate(raw.get(key) or ()):
        _only(known, one, f"{key}[{index}].")
        yield _value(one, folder)


def _value(raw: Mapping[str, Any], folder: str) -> CardValue:
    labels = raw.get("labels")
    mean, std = _floats(raw.get("mean")), _floats(raw.get("std"))
    if 0 in std:
        raise ValueError(f"std has a 0, and pixels are divided by it: {list(std)}")
    if raw.get("range") and not mean and not std:
        mean, std = _mean_and_std(_floats(raw["range"]))
    inline = isinstance(labels, Sequence) and not isinstance(labels, str)
    return CardValue(
        name=str(raw.get("name") or ""),
        meaning=str(raw.get("meaning") or ""),
        layout=_one_of(LAYOUTS, raw, "layout", str.upper),
        order=_one_of(CHANNELS, raw, "channels", str.upper) or "RGB",
        mean=mean,
        std=std,
        rate=int(raw.get("rate") or 0),
        labels="" if inline or not labels else folder + str(labels),
        names=tuple(map(str, labels)) if inline and labels else (),
        fill=_one_of(STARTS, raw, "fill"),
        hop=int(raw.get("hop") or 0),
        overlap=int(raw.get("overlap") or 0),
        feeds=str(raw.get("feeds") or ""),
        curve=bool(raw.get("curve")),
        hidden=bool(raw.get("hidden")),
        boxes=_one_of(BOXES, raw, "boxes"),
        mask=bool(raw.get("mask")),
        threshold=float(raw.get("threshold") or 0),
    )


def _one_of(
    known: Sequence[str],
    raw: Mapping[str, Any],
    key: str,
    spelled: Callable[[str], str] = lambda text: text,
) -> str:
    """Return the value of a field, or ""; an unknown value is an error, not ignored."""
    value = spelled(str(raw.get(key) or ""))
    if value and value not in known:
        raise ValueError(f"{key} {value!r} is none of {', '.join(known)}")
    return value


def _mean_and_std(bounds: Sequence[float]) -> tuple[tuple[float], tuple[float]]:
    """Return the mean and std that scale pixels of 0 to 1 to a `range`."""
    if len(bounds) != 2 or bounds[0] == bounds[1]:
        raise ValueError(f"range must be two numbers that differ, not {list(bounds)}")
    low, high = bounds
    return (-low / (high - low),), (1 / (high - low),)


def _floats(raw: object) -> tuple[float, ...]:
    return tuple(float(one) for one in _listed(raw)) if raw is not None else ()


def _listed(raw: Any) -> Sequence[Any]:
    return raw if isinstance(raw, list | tuple) else (raw,)


def _address(folder: str, name: object) -> str:
    return folder + str(name) if name else ""
