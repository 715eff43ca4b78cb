"""A console cell: runs code in the page's Python, and shows printed text and the returned value.

Code may await at its top level. The value of its last line is shown: arrays as small tables,
pictures or curves, reports of webpte as their tables, everything else by its repr.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import re
import rlcompleter
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np

from page.shared.html.markup import Html, h
from page.shared.html.tables import scrolled
from page.shared.html.units import number_text, plural, shape_text
from page.shared.outputs.figures import grid_rows, line_figure, picture_figure
from page.shared.outputs.pictures import picture
from page.shared.outputs.tensors import grid

_FILE = "<cell>"
_MOST_TEXT = 20_000  # characters of printed text, and of a repr
_ROWS, _COLUMNS = 8, 8
_POINTS = 480  # of a curve
_WORD = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*$")
_MOST_OPTIONS = 60
_SIZE = (480, 120)


@dataclass(frozen=True)
class CellResult:
    """The result of a cell: printed text, its value as markup, its error, and whether it was
    interrupted."""

    printed: str = ""
    value: Html | None = None
    error: str = ""
    interrupted: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell that ran."""

    source: str
    result: CellResult


class Console:
    """The names of a session of cells; a new program starts without names."""

    def __init__(self, interruptible: Callable[[], AbstractContextManager[None]]) -> None:
        """Build a console; cells run in the context that `interruptible` makes."""
        self._interruptible = interruptible
        self._names: dict[str, Any] = {}

    def forget(self) -> None:
        self._names = {}

    async def run(self, source: str, names: Mapping[str, Any]) -> CellResult:
        """Run a cell; `names` are set anew each time, others stay from cell to cell."""
        self._names |= names
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            try:
                with self._interruptible():
                    value = await self._value(source)
                    shown = None if value is None else value_view(value)
            except asyncio.CancelledError:
                raise
            except KeyboardInterrupt:
                return CellResult(_cut(printed.getvalue()), interrupted=True)
            except (Exception, SystemExit) as error:
                return CellResult(_cut(printed.getvalue()), None, error_text(error))
        return CellResult(_cut(printed.getvalue()), shown)

    def complete(self, text: str, names: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Return what completes the name or attribute at the end of a text, as far as all options
        agree, and the options."""
        word = _WORD.search(text)
        if word is None:
            return "", []
        completer = rlcompleter.Completer({**self._names, **names})
        found = dict.fromkeys(_completions(completer, word[0]))
        options = [one.rstrip("() ") for one in found]
        first, last = min(options, default=""), max(options, default="")
        same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return "".join(one for one, _ in same)[len(word[0]) :], options

    async def _value(self, source: str) -> Any:
        """Run all statements, and return the value of the last one if it is an expression."""
        tree = ast.parse(source, _FILE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        await self._execute(compile(tree, _FILE, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
        if not isinstance(last, ast.Expr):
            return None
        expression = ast.Expression(last.value)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return await self._execute(compile(expression, _FILE, "eval", flags))

    async def _execute(self, code: Any) -> Any:
        value = eval(code, self._names)
        return await value if code.co_flags & inspect.CO_COROUTINE else value


def _completions(completer: rlcompleter.Completer, word: str) -> Iterator[str]:
    for number in range(_MOST_OPTIONS):
        try:
            found = completer.complete(word, number)
        except Exception:  # a property of an object may raise anything
            return
        if found is None:
            return
        yield found


def error_text(error: BaseException) -> str:
    """Return the traceback of an error without the frames of the page."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((at for at, frame in enumerate(frames) if frame.filename == _FILE), len(frames))
    told = traceback.format_list(frames[first:])
    return "".join([*told, *traceback.format_exception_only(error)]).rstrip()


def _cut(text: str) -> str:
    if len(text) <= _MOST_TEXT:
        return text
    return f"{text[:_MOST_TEXT]}\n… {len(text) - _MOST_TEXT:,} more characters"


def value_view(value: Any) -> Html:
    """Return a value as markup."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return _array_view(value)
    arrays = isinstance(value, tuple | list) and 0 < len(value) <= 8
    if arrays and all(isinstance(one, np.ndarray) for one in value):
        return h("div", [value_view(one) for one in value], class_="cell-values")
    # Other classes may have markup, too, but only webpte's is known to be safe.
    if type(value).__module__.partition(".")[0] == "webpte" and hasattr(value, "_repr_html_"):
        return h("div", Html(value._repr_html_()), class_="cell-report")
    return h("pre", h("code", _cut(repr(value))), tabindex="0")


def _array_view(array: np.ndarray) -> Html:
    about = f"{array.dtype.name} {shape_text(array.shape)}"
    if array.size > 1 and array.dtype.kind != "b" and np.isfinite(array).all():
        about += f", {number_text(array.min().item())} to {number_text(array.max().item())}"
    made = picture(array) if array.ndim > 1 else None
    return h(
        "div",
        h("p", about, class_="type"),
        picture_figure(made, "the array") if made is not None else _curve(array),
        _table(array) if array.size else None,
        class_="cell-array",
    )


def _curve(array: np.ndarray) -> Html | None:
    flat = array.reshape(-1)
    if max(array.shape, default=0) != array.size or array.size < 9:
        return None
    if array.dtype.kind == "b" or not np.isfinite(flat).all():
        return None
    means = [float(part.mean()) for part in np.array_split(flat, min(flat.size, _POINTS))]
    low, high = min(means), max(means)
    heights = [(one - low) / ((high - low) or 1.0) for one in means]
    ends = number_text(low), number_text(high)
    label = f"Curve of {plural(array.size, 'value')} from {ends[0]} to {ends[1]}"
    told = f"{ends[0]} to {ends[1]}", plural(array.size, "value")
    if len(means) < array.size:
        told = f"means from {ends[0]} to {ends[1]}", told[1]
    return line_figure(heights, _SIZE, label, "cell-curve", *told)


def _table(array: np.ndarray) -> Html:
    rows = grid_rows(grid(array, _ROWS, _COLUMNS))
    return scrolled("First values", h("table", h("tbody", rows), class_="grid"))
