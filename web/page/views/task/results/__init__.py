"""Ways to show results of tasks: the first that fits a result's fields is used.

A task whose results have the fields of another's needs nothing here; else a module in this folder
has a `ResultView`, and a row below.
"""

from __future__ import annotations

from typing import Any

from page.views.task.results.base import ResultView
from page.views.task.results.lists import FILLED, LABELLED, LABELS, RANKED
from page.views.task.results.notes import NOTES
from page.views.task.results.other import ARRAY, PLAIN
from page.views.task.results.over_picture import BOXES, LINES, MASKS, PROMPTED
from page.views.task.results.pictures import DEPTH, PICTURE
from page.views.task.results.sounds import SPANS
from page.views.task.results.texts import ANSWERS, ENTITIES, SPOKEN, WRITTEN

WAYS = (
    *(LINES, BOXES, MASKS, PROMPTED, DEPTH, PICTURE),
    *(FILLED, RANKED, LABELLED, LABELS, ENTITIES, ANSWERS),
    *(SPOKEN, WRITTEN, NOTES, SPANS, ARRAY, PLAIN),
)


def view_of_result(result: Any) -> ResultView:
    """Return the way to show a result; the last one takes everything."""
    return next(way for way in WAYS if way.fits(result))
