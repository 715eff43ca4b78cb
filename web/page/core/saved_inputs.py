"""Inputs as they were set and outputs as they were shown, kept by program from visit to visit.

Rules, typed values and settings are kept, and files, pictures and drawings if they are small.
"""

from __future__ import annotations

import contextlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from page.core.session import Session
from page.core.store import Store
from page.shared.cards.fills import fills_for
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.inputs.photos import FITS, ORDERS, SCALES, Photo, PhotoSettings, whole_of
from page.shared.inputs.sounds import HIGHEST_RATE, LEVELS, LOWEST_RATE, PARTS, SoundSettings
from page.shared.npy import Array, NpyError, read_npy, write_npy
from page.shared.outputs.renderers.base import Choice
from page.shared.persistence.shared_inputs import from_fragment, to_fragment
from webpte import Program
from webpte.errors import WebpteError
from webpte.program import fingerprint_of

MOST_BYTES = 128 << 10  # of an array: browsers keep a few megabytes for a whole site
_RULES = ("fill", "dims", "seed", "below", "text")
_MOST_TOKENS = 4096  # of a text
_FINGERPRINT = 20  # characters of it
_CHOICES = "/looks"  # a key beside the methods; no method has this name


async def read_fingerprint(program: Program) -> str:
    """Return what tells a program from others of its name and size; "" if it cannot be read."""
    try:
        return (await fingerprint_of(program))[:_FINGERPRINT]
    except WebpteError:
        return ""


class SavedInputs:
    """Inputs and output settings of programs, in the store."""

    def __init__(self, store: Store, photo: Callable[[Array], Photo]) -> None:
        """Build the keeper; `photo` turns pixels into a picture that the browser holds."""
        self._store = store
        self._photo = photo
        self._shared: tuple[str, dict[str, Any]] | None = None  # of a link, until they are used

    def take_fragment(self, fragment: str) -> None:
        """Take over the inputs of a link, for the program that it names."""
        self._shared = from_fragment(fragment)

    def fragment(self, session: Session) -> str:
        """Return the fragment of a link with the inputs; "" if there are none, or too many."""
        value = self._value(session)
        return to_fragment(_name(session), value) if value else ""

    def has_inputs(self, session: Session) -> bool:
        return bool(self._value(session))

    def save(self, session: Session) -> None:
        self._store.write(_key(session), self._value(session))

    def _value(self, session: Session) -> dict[str, Any]:
        methods = {
            method: {state.name: _input_json(state) for state in states if state.touched}
            for method, states in session.set_inputs.items()
        }
        value: dict[str, Any] = {method: states for method, states in methods.items() if states}
        choices = _choices_json(session)
        if choices:
            value[_CHOICES] = choices
        return value

    def restore(self, session: Session) -> None:
        """Set inputs as they were saved; what no longer fits is left unset."""
        if self._shared is not None and self._shared[0] == _name(session):
            self._store.write(_key(session), self._shared[1])
            self._shared = None
        self._take_over(session)
        # Another version of this page, or another hand, may have written anything.
        with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError):
            methods = self._store.read(_key(session)) or {}
            _restore_choices(session, methods.pop(_CHOICES, {}))
            for method, inputs in methods.items():
                if method not in session.methods or session.methods[method].is_constant:
                    continue
                for state in session.inputs_of(method):
                    if state.name in inputs:
                        _restore_input(state, inputs[state.name], self._photo)

    def _take_over(self, session: Session) -> None:
        """Move inputs that an earlier version kept by name and size, if there are no others."""
        key, name = _key(session), _name(session)
        old = self._store.read(name) if key != name else None
        if old and not self._store.read(key):
            self._store.write(key, old)
            self._store.write(name, None)


def _key(session: Session) -> str:
    """Return where the inputs of a program are kept."""
    return ":".join(filter(None, (_name(session), session.fingerprint)))


def _name(session: Session) -> str:
    """Return the program's key in a link, which has the program's address, too."""
    return f"{session.source.name}:{session.source.size}"


# ---- how outputs are shown


def _choices_json(session: Session) -> dict[str, Any]:
    """Return the chosen renderers and settings by method and output."""
    value: dict[str, Any] = {}
    for method, choices in session.choices.items():
        chosen = {
            str(index): {"look": one.renderer, "settings": one.settings}
            for index, one in choices.items()
            if one.renderer or one.settings
        }
        if chosen:
            value[method] = chosen
    return value


def _restore_choices(session: Session, value: Mapping[str, Any]) -> None:
    for method, choices in value.items():
        for index, one in choices.items():
            settings = {str(name): str(text) for name, text in one["settings"].items()}
            choice = Choice(str(one["look"]), settings)
            session.choices.setdefault(method, {}).setdefault(int(index), choice)


# ---- inputs


def _input_json(state: Input) -> dict[str, Any]:
    if isinstance(state, ScalarInput):
        return {"value": state.value}
    value: dict[str, Any] = {"settings": asdict(state.settings)}
    if state.sound is not None:
        value["sound"] = asdict(state.sound_settings)
    if state.pinned:
        value["pinned"] = {str(dim): why for dim, why in state.pinned.items()}
    if state.fill == "text" and len(state.tokens) <= _MOST_TOKENS:
        value |= {"prompt": state.prompt, "tokens": state.tokens}
    if state.fill in fills_for(state.dtype)[:-1] or (state.fill == "typed" and not state.error):
        value |= {name: getattr(state, name) for name in _RULES}
    return value | file_json(state)


def _restore_input(state: Input, value: Mapping[str, Any], photo: Callable[[Array], Photo]) -> None:
    if isinstance(state, ScalarInput):
        state.set_value({True: "true", False: "false"}.get(value["value"], str(value["value"])))
        state.touched = True
        return
    state.settings = _photo_settings(state, value["settings"])
    if state.sound is not None and "sound" in value:
        state.sound_settings = _sound_settings(state, value["sound"])
    for dim, why in value.get("pinned", {}).items():
        state.pin(int(dim), str(why))
        state.touched = True
    if "tokens" in value and state.takes_text:
        state.set_prompt(str(value["prompt"]), [int(one) for one in value["tokens"]])
        state.touched = True
    restore_file(state, value, photo)
    if "fill" not in value:
        return
    for dim, size in enumerate(value["dims"][: len(state.bounds)]):
        low, high = state.bounds[dim]
        state.dims[dim] = min(max(int(size), low), high)
    state.seed, state.below = int(value["seed"]), int(value["below"])
    state.text = str(value["text"])
    state.set_fill(str(value["fill"]))
    state.touched = True


def _photo_settings(state: TensorInput, value: Mapping[str, Any]) -> PhotoSettings:
    found = PhotoSettings(**{**value, "mean": tuple(value["mean"]), "std": tuple(value["std"])})
    known = found.fit in FITS and found.order in ORDERS and found.scale in SCALES
    return found if known else state.settings


def _sound_settings(state: TensorInput, value: Mapping[str, Any]) -> SoundSettings:
    found = SoundSettings(**value)
    known = found.part in PARTS and found.level in LEVELS and found.hop >= 0
    return found if known and LOWEST_RATE <= found.rate <= HIGHEST_RATE else state.sound_settings


# ---- small files


def file_json(state: TensorInput) -> dict[str, Any]:
    """Return the array, picture or drawing of an input; {} if it is absent or too large."""
    array: Array | None = None
    if state.fill == "picture" and state.photo is not None:
        photo = state.photo
        if 3 * photo.height * photo.width <= MOST_BYTES:
            array = photo.part(whole_of(photo), photo.height, photo.width)
    elif state.fill == "draw":
        array = state.drawing
    elif state.fill == "file":
        array = state.array()
    if array is None or state.error or array.nbytes > MOST_BYTES:
        return {}
    data = b64encode(write_npy(array)).decode()
    return {"file": {"as": state.fill, "name": state.file_name, "npy": data}}


def restore_file(
    state: TensorInput, value: Mapping[str, Any], photo: Callable[[Array], Photo]
) -> None:
    """Give an input its saved array, picture or drawing, if that still fits."""
    file = value.get("file")
    if not file:
        return
    name = str(file["name"])
    with contextlib.suppress(NpyError):
        array = read_npy(b64decode(file["npy"]), name)
        if file["as"] == "picture":
            state.take_picture(photo(_pixels(array, name)), name)
        elif file["as"] == "draw":
            _restore_drawing(state, array)
        else:
            state.take_array(array, name)
        state.touched = True


def _pixels(array: Array, name: str) -> Array:
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3 or not array.size:
        raise NpyError(f"{name} does not hold the pixels of a picture")
    return array


def _restore_drawing(state: TensorInput, grey: Array) -> None:
    """Restore a drawing, (height, width) uint8, and the size of its pad."""
    form = state.form
    if form is None or "draw" not in state.fills or grey.dtype != np.uint8 or grey.ndim != 2:
        raise NpyError(f"{state.name} cannot be drawn")
    sizes = dict(zip((form.rows, form.columns), grey.shape, strict=True))
    if any(not state.bounds[dim][0] <= size <= state.bounds[dim][1] for dim, size in sizes.items()):
        raise NpyError(f"the size of the drawing is out of the bounds of {state.name}")
    for dim, size in sizes.items():
        state.dims[dim] = size
    state.take_drawing(grey)
