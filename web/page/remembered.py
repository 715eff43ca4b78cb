"""What the inputs of a program were set to, remembered in the browser for the next visit.

Rules, typed values and settings are; files, pictures and drawings are not: they are the user's, and
may be large.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from page.browser import Browser
from page.inputs import Input, ScalarInput, TensorInput, fills_for
from page.photos import FITS, ORDERS, SCALES, Settings
from page.session import Session

_RULES = ("fill", "dims", "seed", "below", "text")


class Memory:
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
        kept = {method: states for method, states in methods.items() if states}
        text = json.dumps(kept) if kept else ""
        key = _key(session)
        if self._texts.get(key, "") != text:
            self._texts[key] = text
            self._browser.show(remember={"key": key, "text": text})

    def recall(self, session: Session) -> None:
        """Sets inputs as they were. What does not fit any more is left as it is."""
        try:
            methods = json.loads(self._texts.get(_key(session)) or "{}")
            for method, inputs in methods.items():
                if method not in session.methods or session.methods[method].is_constant:
                    continue
                for state in session.inputs_of(method):
                    if state.name in inputs:
                        _restore(state, inputs[state.name])
        except (ValueError, TypeError, KeyError, AttributeError):
            return  # of another version of this page, or by another hand


def _key(session: Session) -> str:
    return f"{session.source.name}:{session.source.size}"


def _written(state: Input) -> dict[str, Any]:
    if isinstance(state, ScalarInput):
        return {"value": state.value}
    written: dict[str, Any] = {"settings": asdict(state.settings)}
    if state.fill in fills_for(state.dtype)[:-1] or (state.fill == "typed" and not state.error):
        written |= {name: getattr(state, name) for name in _RULES}
    return written


def _restore(state: Input, written: Mapping[str, Any]) -> None:
    if isinstance(state, ScalarInput):
        state.set_value({True: "true", False: "false"}.get(written["value"], str(written["value"])))
        state.touched = True
        return
    state.settings = _settings(state, written["settings"])
    if "fill" not in written:
        return
    for dim, size in enumerate(written["dims"][: len(state.bounds)]):
        low, high = state.bounds[dim]
        state.dims[dim] = min(max(int(size), low), high)
    state.seed, state.below = int(written["seed"]), int(written["below"])
    state.text = str(written["text"])
    state.set_fill(str(written["fill"]))
    state.touched = True


def _settings(state: TensorInput, written: Mapping[str, Any]) -> Settings:
    found = Settings(**{**written, "mean": tuple(written["mean"]), "std": tuple(written["std"])})
    known = found.fit in FITS and found.order in ORDERS and found.scale in SCALES
    return found if known else state.settings
