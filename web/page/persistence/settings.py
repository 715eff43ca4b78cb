"""What inputs were set to and how outputs were seen, remembered in the browser by program.

Rules, typed values and settings are, and files, pictures and drawings if they are small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from page.browser import Browser
from page.cards.fills import fills_for
from page.inputs.inputs import Input, ScalarInput, TensorInput
from page.inputs.photos import FITS, ORDERS, SCALES, PhotoSettings
from page.inputs.sounds import HIGHEST_RATE, LEVELS, LOWEST_RATE, PARTS, SoundSettings
from page.outputs.renderers.base import Choice
from page.persistence.small_files import restore_file, written_file
from page.session.session import Session
from webpte.json_reader import parse_json

_RULES = ("fill", "dims", "seed", "below", "text")
_MOST_TOKENS = 4096  # of a text that is remembered
_LOOKS = "/looks"  # beside the methods, none of which has such a name


class InputMemory:
    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._texts: dict[str, str] = {}

    def take(self, stored: Mapping[str, str]) -> None:
        """What the browser has kept, by program."""
        self._texts = dict(stored)

    def keep(self, session: Session) -> None:
        methods = {
            method: {state.name: _written(state) for state in states if state.touched}
            for method, states in session.set_inputs.items()
        }
        kept: dict[str, Any] = {method: states for method, states in methods.items() if states}
        looks = _written_looks(session)
        if looks:
            kept[_LOOKS] = looks
        text = json.dumps(kept) if kept else ""
        key = _key(session)
        if self._texts.get(key, "") != text:
            self._texts[key] = text
            self._browser.show(remember={"key": key, "text": text})

    def recall(self, session: Session) -> None:
        """Sets inputs as they were. What does not fit any more is left as it is."""
        try:
            methods = parse_json(
                self._texts.get(_key(session)) or "{}", "what is kept", ValueError, not_finite=True
            )
            _restore_looks(session, methods.pop(_LOOKS, {}))
            for method, inputs in methods.items():
                if method not in session.methods or session.methods[method].is_constant:
                    continue
                for state in session.inputs_of(method):
                    if state.name in inputs:
                        _restore(state, inputs[state.name])
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            return  # of another version of this page, or by another hand


def _key(session: Session) -> str:
    return f"{session.source.name}:{session.source.size}"


def _written_looks(session: Session) -> dict[str, Any]:
    """By method and output, of those that someone has chosen something for."""
    written: dict[str, Any] = {}
    for method, choices in session.looks.items():
        chosen = {str(at): asdict(one) for at, one in choices.items() if one.look or one.settings}
        if chosen:
            written[method] = chosen
    return written


def _restore_looks(session: Session, written: Mapping[str, Any]) -> None:
    for method, choices in written.items():
        for at, one in choices.items():
            settings = {str(name): str(value) for name, value in one["settings"].items()}
            choice = Choice(str(one["look"]), settings)
            session.looks.setdefault(method, {}).setdefault(int(at), choice)


def _written(state: Input) -> dict[str, Any]:
    if isinstance(state, ScalarInput):
        return {"value": state.value}
    written: dict[str, Any] = {"settings": asdict(state.settings)}
    if state.sound is not None:
        written["sound"] = asdict(state.sound_settings)
    if state.pinned:
        written["pinned"] = {str(dim): why for dim, why in state.pinned.items()}
    if state.fill == "text" and len(state.tokens) <= _MOST_TOKENS:
        written |= {"prompt": state.prompt, "tokens": state.tokens}
    if state.fill in fills_for(state.dtype)[:-1] or (state.fill == "typed" and not state.error):
        written |= {name: getattr(state, name) for name in _RULES}
    return written | written_file(state)


def _restore(state: Input, written: Mapping[str, Any]) -> None:
    if isinstance(state, ScalarInput):
        state.set_value({True: "true", False: "false"}.get(written["value"], str(written["value"])))
        state.touched = True
        return
    state.settings = _settings(state, written["settings"])
    if state.sound is not None and "sound" in written:
        state.sound_settings = _sound_settings(state, written["sound"])
    for dim, why in written.get("pinned", {}).items():
        state.pin(int(dim), str(why))
        state.touched = True
    if "tokens" in written and state.takes_text:
        state.set_prompt(str(written["prompt"]), [int(one) for one in written["tokens"]])
        state.touched = True
    restore_file(state, written)
    if "fill" not in written:
        return
    for dim, size in enumerate(written["dims"][: len(state.bounds)]):
        low, high = state.bounds[dim]
        state.dims[dim] = min(max(int(size), low), high)
    state.seed, state.below = int(written["seed"]), int(written["below"])
    state.text = str(written["text"])
    state.set_fill(str(written["fill"]))
    state.touched = True


def _settings(state: TensorInput, written: Mapping[str, Any]) -> PhotoSettings:
    found = PhotoSettings(
        **{**written, "mean": tuple(written["mean"]), "std": tuple(written["std"])}
    )
    known = found.fit in FITS and found.order in ORDERS and found.scale in SCALES
    return found if known else state.settings


def _sound_settings(state: TensorInput, written: Mapping[str, Any]) -> SoundSettings:
    found = SoundSettings(**written)
    known = found.part in PARTS and found.level in LEVELS and found.hop >= 0
    return found if known and LOWEST_RATE <= found.rate <= HIGHEST_RATE else state.sound_settings
