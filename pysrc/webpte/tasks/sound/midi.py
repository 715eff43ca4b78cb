"""Writes notes as a standard MIDI file: a track for the tempo, and a track for each voice."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from webpte.errors import InputError

TICKS = 480  # per quarter note
_PIANO = 4  # the program "Electric Piano 1", as in basic-pitch's files
_CHANNELS = [channel for channel in range(16) if channel != 9]  # the tenth has drums
_CENTER, _SEMITONE = 8192, 4096  # pitch bends, which reach two semitones
_BINS = 3  # steps of pitch bends per semitone
_OFF, _ON, _PROGRAM, _BEND = 0x80, 0x90, 0xC0, 0xE0
_META, _TEMPO, _END = 0xFF, 0x51, 0x2F
_SLOWEST = 60e6 / (2**24 - 1)  # beats a minute: a quarter has three bytes of microseconds
_FASTEST = 1000.0
_LONGEST = 2**28 - 1  # ticks: a delta has four bytes of seven bits
_Event = tuple[int, int, bytes]  # tick; order within it; message


def write_midi(
    notes: Sequence[Mapping[str, Any]],
    *,
    multiple_pitch_bends: bool = False,
    midi_tempo: float = 120,
) -> bytes:
    """Return the bytes of a MIDI file.

    notes                 {"start", "end", "pitch", "amplitude"}, and "pitch_bends" in thirds of a
                          semitone, evenly from start to end, as audio-to-midi returns them
    multiple_pitch_bends  each pitch gets its own track, and overlapping notes bend, too; else they
                          do not, since all notes of a channel bend together
    midi_tempo            quarter notes a minute
    """
    if not _SLOWEST <= _number(midi_tempo, "midi_tempo") <= _FASTEST:
        raise InputError(f"midi_tempo is {midi_tempo}; it is from {_SLOWEST:.1f} to {_FASTEST:g}")
    checked = [_check(note, at) for at, note in enumerate(notes)]
    checked.sort(key=lambda note: (note["start"], note["end"], note["pitch"]))
    voices: dict[int, list[dict[str, Any]]] = {}
    for note in checked if multiple_pitch_bends else _without_shared_bends(checked):
        voices.setdefault(note["pitch"] if multiple_pitch_bends else 0, []).append(note)
    micros = round(60e6 / midi_tempo)
    ticks = 1e6 / micros * TICKS  # ticks per second
    tracks = [_track([(0, 0, bytes([_META, _TEMPO, 3]) + micros.to_bytes(3, "big"))])]
    for at, (_, voice) in enumerate(sorted(voices.items())):
        tracks.append(_track(_events(voice, _CHANNELS[at % len(_CHANNELS)], ticks)))
    return b"MThd" + struct.pack(">IHHH", 6, 1, len(tracks), TICKS) + b"".join(tracks)


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError(f"{what} is {value!r}; it is a number")
    return float(value)


def _check(note: Mapping[str, Any], at: int) -> dict[str, Any]:
    """Return a copy of a note; raise InputError for values that cannot be written."""
    missing = [name for name in ("start", "end", "pitch", "amplitude") if name not in note]
    if missing:
        raise InputError(f"note {at} has no {', '.join(missing)}")
    start, end, loud = (
        _number(note[name], f"{name} of note {at}") for name in ("start", "end", "amplitude")
    )
    if not 0 <= start <= end:
        raise InputError(f"note {at} is from {start} to {end} s; it starts at 0 or later, and ends")
    if not 0 <= loud <= 1:
        raise InputError(f"amplitude of note {at} is {loud}; it is from 0 to 1")
    pitch = note["pitch"]
    if type(pitch) is not int or not 0 <= pitch <= 127:
        raise InputError(f"pitch of note {at} is {pitch!r}; MIDI's numbers are 0 to 127")
    bends = [_number(bend, f"a bend of note {at}") for bend in note.get("pitch_bends") or ()]
    return {"start": start, "end": end, "pitch": pitch, "amplitude": loud, "pitch_bends": bends}


def _without_shared_bends(notes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return notes, sorted by start, with the bends of overlapping notes removed."""
    shared = [False] * len(notes)
    last, longest = 0.0, -1  # latest end so far, and the index of its note
    for at, note in enumerate(notes):
        if longest >= 0 and note["start"] < last:
            shared[at] = shared[longest] = True
        if longest < 0 or note["end"] > last:
            last, longest = note["end"], at
    return [
        {**note, "pitch_bends": []} if alone else note
        for note, alone in zip(notes, shared, strict=True)
    ]


def _events(notes: Sequence[dict[str, Any]], channel: int, ticks: float) -> list[_Event]:
    """Return the events of a voice. At the same tick, notes end before others bend and begin."""
    found: list[_Event] = [(0, 0, bytes([_PROGRAM | channel, _PIANO]))]
    for note in notes:
        start = round(note["start"] * ticks)
        end = max(round(note["end"] * ticks), start + 1)
        if end > _LONGEST:
            raise InputError(f"a note ends after {note['end']:g} s, later than MIDI files can tell")
        pitch, velocity = note["pitch"], max(round(127 * note["amplitude"]), 1)  # 0 means "off"
        found.append((start, 3, bytes([_ON | channel, pitch, velocity])))
        found.append((end, 0, bytes([_OFF | channel, pitch, 0])))
        now = _CENTER
        bends = note["pitch_bends"]
        for at, bend in enumerate(bends):
            wanted = _CENTER + round(bend * _SEMITONE / _BINS)
            wanted = min(max(wanted, 0), 2 * _CENTER - 1)
            if wanted != now:
                place = start + round((end - start) * at / max(len(bends) - 1, 1))
                found.append((place, 2, _bend(channel, wanted)))
                now = wanted
        if now != _CENTER:  # the next note may have no bends
            found.append((end, 1, _bend(channel, _CENTER)))
    return found


def _bend(channel: int, value: int) -> bytes:
    return bytes([_BEND | channel, value & 0x7F, value >> 7])


def _track(events: Sequence[_Event]) -> bytes:
    data, now = bytearray(), 0
    for tick, _, message in sorted(events, key=lambda event: event[:2]):
        data += _delta(tick - now) + message
        now = tick
    data += bytes([0, _META, _END, 0])
    return b"MTrk" + struct.pack(">I", len(data)) + bytes(data)


def _delta(ticks: int) -> bytes:
    """Return a number in groups of seven bits, the highest first; all but the last have bit 8."""
    groups = [ticks & 0x7F]
    while ticks := ticks >> 7:
        groups.insert(0, 0x80 | ticks & 0x7F)
    return bytes(groups)
