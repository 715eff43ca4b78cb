"""The task of a program by the card of a sample or of a model: its inputs and outputs.

docs/inside/extending.md has the fields of cards. Programs of several inputs, and values of other
kinds than below, are taken and shown as numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from webpte.engine.call.info import MethodInfo, TensorInfo

Table = dict[str, Any]
_BILINEAR, _FREE, _STRETCH = 2, "", "stretch"


def card_task(card: Mapping[str, Any], method: MethodInfo, labels: Sequence[str] = ()) -> Table:
    """Return the task that a card describes.

    method  the method that does the task
    labels  the names in the file that the card's `labels` name, if that is a file's name
    """
    inputs, outputs = card.get("inputs") or (), card.get("outputs") or ()
    alone = len(method.inputs) == 1 and isinstance(method.inputs[0], TensorInfo)
    given = _input(inputs[0], method.inputs[0]) if alone and inputs else {"kind": "numbers"}
    results = [
        _output(outputs[at] if at < len(outputs) else {}, info, labels) | {"outputs": [at]}
        for at, info in enumerate(method.outputs)
    ]
    shown = [
        one for at, one in enumerate(results) if at >= len(outputs) or not outputs[at].get("hidden")
    ]
    return {**titles(card), "method": method.name, "input": given, "outputs": shown or results}


def titles(card: Mapping[str, Any]) -> Table:
    """Return the texts of a card that a page shows."""
    return {key: str(card[key]) for key in ("title", "about") if card.get(key)}


def _input(card: Mapping[str, Any], info: Any) -> Table:
    layout = str(card.get("layout", "")).upper()
    if card.get("rate") and card.get("hop") and len(info.shape) == 2:
        return {"kind": "sound", "rate": int(card["rate"]), "hop": int(card["hop"])}
    if not layout or len(layout) != len(info.shape) or not info.dtype.startswith("float"):
        return {"kind": "numbers"}
    sizes = dict(zip(layout, info.bounds, strict=True))
    fixed = all(low == high for low, high in (sizes["H"], sizes["W"]))
    size = [sizes[dim][1] for dim in "HW"]
    rule: Table = {
        "scaled": _STRETCH if fixed else _FREE,
        "size": size,
        "multiple": 1,
        "part": None,
        "resample": _BILINEAR,
        "scale": 1 / 255,
        "empty": False,
    }
    rule["mean"], rule["std"] = _colours(card)
    channels = sizes["C"][1] if "C" in sizes else 1
    kind = "drawing" if card.get("fill") == "draw" else "picture"
    order = str(card.get("channels", "RGB")).upper()
    return {"kind": kind, "layout": layout, "channels": channels, "order": order, "rule": rule}


def _colours(card: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return the mean and deviation of each channel, or of all, of pixels from 0 to 1."""
    if card.get("range"):
        low, high = card["range"]
        return [-low / (high - low)], [1 / (high - low)]
    mean, std = (card.get(key, default) for key, default in (("mean", 0.0), ("std", 1.0)))
    return _listed(mean), _listed(std)


def _listed(values: Any) -> list[float]:
    return [float(one) for one in (values if isinstance(values, list | tuple) else [values])]


def _output(card: Mapping[str, Any], info: Any, labels: Sequence[str]) -> Table:
    named = {"title": str(card["name"])} if card.get("name") else {}
    listed = card.get("labels")
    names = list(listed) if isinstance(listed, list) else list(labels) if listed else []
    if not isinstance(info, TensorInfo) or not info.dtype.startswith("float"):
        return {**named, "kind": "numbers"}
    if names and len(info.shape) < 3:
        return {**named, "kind": "scores", "labels": names}
    if str(card.get("layout", "")).upper().endswith("CHW"):
        mean, std = _colours(card)
        scale, offset = [255 * one for one in std], [255 * one for one in mean]
        return {**named, "kind": "picture", "scale": scale, "offset": offset}
    return {**named, "kind": "vector" if card.get("curve") else "numbers"}
