"""Results that are notes of music: a piano roll, a table, and a MIDI file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from page.shared.html.markup import Html, h
from page.shared.html.units import plural
from page.views.task.results.answer import TaskAnswer
from page.views.task.results.base import (
    MOST_SHOWN,
    ResultView,
    SavedFile,
    Settings,
    has_items,
    percent,
)
from webpte.tasks.sound.midi import write_midi

Note = Mapping[str, Any]
_MOST_DRAWN = 3000  # bars
_LEAST_KEYS = 13  # of the roll; one of them is a C, which has its name beside it
_TALLEST, _KEY, _LEAST_KEY = 420, 14, 5  # pixels of the roll; of a key, at most and at least
_BELOW = 20  # pixels for the times
_SECOND = 24  # pixels at least
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600)  # seconds between times
_MOST_TIMES = 8  # in the width of a page
_BLACK = {1, 3, 6, 8, 10}  # of an octave from C


def _draw_notes(answer: TaskAnswer, settings: Settings) -> Html:
    notes: Sequence[Note] = answer.result
    last = max(note["end"] for note in notes)
    seconds = max(answer.sound.seconds if answer.sound is not None else 0.0, last, 1e-9)
    names = dict.fromkeys(note["name"] for note in sorted(notes, key=lambda note: note["pitch"]))
    lowest, *between = names
    range_told = f"{lowest} to {between[-1]}" if between else lowest
    told = f"{plural(len(notes), 'note')}, {range_told}, in {seconds:.1f} s"
    return h("div", h("h3", told), _roll(notes, seconds, told), _table(notes), class_="task-told")


def _roll(notes: Sequence[Note], seconds: float, told: str) -> Html:
    """Return the notes as bars: time to the right, pitch up. Places across are parts of the width,
    so that texts keep their shape."""
    pitches = [note["pitch"] for note in notes]
    low, high = min(pitches) - 1, max(pitches) + 1
    high = max(high, low + _LEAST_KEYS - 1)
    count = high - low + 1
    key = min(max(_TALLEST / count, _LEAST_KEY), _KEY)
    tall = key * count
    tops = {pitch: (high - pitch) * key for pitch in range(low, high + 1)}
    rows = [
        h("rect", x="0", y=f"{top:.1f}", width="100%", height=f"{key:.1f}", class_="task-roll-dark")
        for pitch, top in tops.items()
        if pitch % 12 in _BLACK
    ]
    octaves = [(pitch, tops[pitch] + key) for pitch in tops if pitch % 12 == 0]
    lines = [h("line", x1="0", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}") for _, y in octaves]
    names = [
        h("text", f"C{pitch // 12 - 1}", x="30", y=f"{y - key / 2 + 4:.1f}", text_anchor="end")
        for pitch, y in octaves
    ]
    wide = max(round(_SECOND * seconds), 1)
    height = round(tall) + _BELOW
    drawn = h(
        "svg",
        rows,
        _times(seconds, tall),
        lines,
        [_bar(note, at, tops, key, seconds) for at, note in enumerate(notes[:_MOST_DRAWN])],
        width=wide,
        height=height,
        role="img",
        aria_label=f"Piano roll: {told}",
    )
    keys = h("svg", names, width=36, height=height, aria_hidden="true")
    return h(
        "div",
        h("div", keys, class_="task-roll-keys"),
        h("div", drawn, class_="task-roll-time", tabindex="0"),
        class_="task-roll",
    )


def _bar(note: Note, at: int, tops: Mapping[int, float], key: float, seconds: float) -> Html:
    lasts = max(note["end"] - note["start"], 0.0)
    told = (
        f"{note['name']}, {note['start']:.2f} to {note['end']:.2f} s, "
        f"amplitude {percent(note['amplitude'])}"
    )
    return h(
        "rect",
        h("title", told),
        x=f"{100 * note['start'] / seconds:.3f}%",
        y=f"{tops[note['pitch']] + 0.5:.1f}",
        width=f"{max(100 * lasts / seconds, 0.1):.3f}%",
        height=f"{key - 1:.1f}",
        rx="2",
        fill_opacity=f"{0.4 + 0.6 * min(max(note['amplitude'], 0), 1):.2f}",
        class_="task-note",
        data_item=at,
    )


def _times(seconds: float, tall: float) -> list[Html]:
    """Return lines and numbers at round times."""
    most = max(_MOST_TIMES, _SECOND * seconds / 80)
    step = next((one for one in _STEPS if seconds / one <= most), _STEPS[-1])
    made = []
    for number in range(1, int(seconds / step) + 1):
        x = f"{100 * number * step / seconds:.3f}%"
        anchor = "end" if seconds - number * step < step / 2 else "middle"
        made.append(h("line", x1=x, x2=x, y1="0", y2=f"{tall:.1f}", class_="task-roll-second"))
        made.append(
            h("text", f"{number * step:g} s", x=x, y=f"{tall + 14:.1f}", text_anchor=anchor)
        )
    return made


def _table(notes: Sequence[Note]) -> Html:
    heads = ("note", "MIDI", "start", "end", "amplitude")
    rows = [
        h(
            "tr",
            h("td", note["name"]),
            h("td", note["pitch"], class_="number"),
            h("td", f"{note['start']:.2f} s", class_="number"),
            h("td", f"{note['end']:.2f} s", class_="number"),
            h("td", percent(note["amplitude"]), class_="number"),
            data_item=at,
        )
        for at, note in enumerate(notes[:MOST_SHOWN])
    ]
    more = len(notes) > MOST_SHOWN
    title = f"Table of the first {MOST_SHOWN} notes" if more else "Table"
    table = h(
        "table",
        h("thead", h("tr", [h("th", head, scope="col") for head in heads])),
        h("tbody", rows),
    )
    return h("details", h("summary", title), h("div", table, class_="task-note-table"))


def _midi(answer: TaskAnswer) -> bytes:
    return write_midi(answer.result)


NOTES = ResultView(
    lambda found: has_items(found, "start", "end", "pitch", "name", "amplitude"),
    _draw_notes,
    file=SavedFile("MIDI", "mid", _midi),
)
