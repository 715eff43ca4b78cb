"""Notes of music: basic-pitch finds the same with the same small model; and MIDI files."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import webpte
from support.harness.task_cases import models_folder
from support.music.music_cases import CASES, EXPECTED, RATE, SOUNDS
from webpte.engine.call.info import TensorInfo
from webpte.errors import ExecutionError, InputError, SourceError
from webpte.tasks.files import ModelFiles
from webpte.tasks.sound.audio_to_midi import AudioToMidi
from webpte.tasks.sound.midi import TICKS, write_midi
from webpte.tasks.sound.notes import (
    FoundNote,
    NoteRules,
    find_bends,
    find_notes,
    key_of,
    name_of,
)

WANTED: list[list[Any]] = json.loads(EXPECTED.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def task() -> Iterator[AudioToMidi]:
    opened = asyncio.run(
        webpte.tasks.open("audio-to-midi", models_folder() / "music", device="numpy")
    )
    assert isinstance(opened, AudioToMidi)
    yield opened
    opened.close()


@pytest.mark.parametrize("number", range(len(CASES)))
def test_notes_are_those_of_basic_pitch(task: AudioToMidi, number: int) -> None:
    sound, options = CASES[number]
    found = asyncio.run(task(SOUNDS[sound](), **options))
    rows = [
        [one[name] for name in ("start", "end", "pitch", "amplitude", "pitch_bends")]
        for one in found
    ]
    wanted = WANTED[number]
    assert [row[2] for row in rows] == [row[2] for row in wanted]
    for row, other in zip(rows, wanted, strict=True):
        assert row[:2] == pytest.approx(other[:2], abs=1e-9)
        assert row[3] == pytest.approx(other[3], abs=1e-4)
        assert row[4] == other[4]


def test_the_cases_have_something_to_find() -> None:
    counts = [len(rows) for rows in WANTED]
    assert len(counts) == len(CASES)
    assert sum(count > 0 for count in counts) >= 5
    assert counts[5] > counts[6]  # without the melodia trick, a note without a start is missed


def test_several_sounds_other_rates_and_short_ones(task: AudioToMidi) -> None:
    chords = SOUNDS["chords"]()
    given = [
        {"array": np.repeat(chords, 2), "sampling_rate": 2 * RATE},
        SOUNDS["click"](),
        np.zeros(0, np.float32),
    ]
    twice, click, nothing = asyncio.run(task(given))
    once = asyncio.run(task(chords))
    assert [one["pitch"] for one in twice] == [one["pitch"] for one in once]
    starts = [[one["start"] for one in several] for several in (twice, once)]
    assert starts[0] == pytest.approx(starts[1], abs=0.024)
    assert (click, nothing) == ([], [])
    assert task.rate == RATE


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"onset_threshold": 0}, "onset_threshold"),
        ({"onset_threshold": float("nan")}, "onset_threshold"),
        ({"frame_threshold": 1.5}, "frame_threshold"),
        ({"frame_threshold": True}, "frame_threshold"),
        ({"minimum_note_length": -1}, "minimum_note_length"),
        ({"minimum_frequency": 0}, "minimum_frequency"),
        ({"maximum_frequency": "high"}, "maximum_frequency"),
    ],
)
def test_wrong_options_are_named(task: AudioToMidi, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        asyncio.run(task(np.zeros(10, np.float32), **options))


def test_frequencies_beyond_the_piano_leave_nothing_out(task: AudioToMidi) -> None:
    chords = SOUNDS["chords"]()
    wide = asyncio.run(task(chords, minimum_frequency=20.0, maximum_frequency=9000.0))
    assert wide == asyncio.run(task(chords))
    assert asyncio.run(task(chords, minimum_frequency=900.0, maximum_frequency=500.0)) == []


def test_a_missing_model_says_how_to_get_it() -> None:
    with pytest.raises(SourceError, match="models add basic-pitch"):
        asyncio.run(webpte.tasks.open("audio-to-midi", models_folder() / "no-music"))


def fake(outputs: Any, shape: tuple[int, ...] = (1, 43_844, 1)) -> AudioToMidi:
    """Return the task of a program that always returns the same."""

    async def run(*_: Any) -> Any:
        return outputs

    shapes = [np.shape(one) for one in outputs]
    method = SimpleNamespace(
        inputs=(TensorInfo("samples", shape, "float32", dynamic=False),),
        outputs=tuple(TensorInfo("map", one, "float32", dynamic=False) for one in shapes),
    )
    program: Any = SimpleNamespace(name="x.pte", methods={"forward": method}, run=run)
    return AudioToMidi(ModelFiles(program, "x"))


def maps(value: float = 0.0) -> list[np.ndarray]:
    sizes = (88, 88, 264)
    return [np.full((1, 172, size), value, np.float32) for size in sizes]


def test_another_program_and_nan_are_refused() -> None:
    with pytest.raises(InputError, match="not a program for audio-to-midi"):
        fake(maps(), (1, 16_000))
    with pytest.raises(InputError, match="not a program for audio-to-midi"):
        fake(maps()[:2])
    with pytest.raises(ExecutionError, match="NaN"):
        asyncio.run(fake(maps(float("nan")))(np.zeros(100, np.float32)))


def test_frames_are_joined_without_those_that_windows_share() -> None:
    outputs = maps()
    outputs[0] += np.arange(172, dtype=np.float32)[:, None]
    frames, onsets, contours = asyncio.run(fake(outputs).maps(np.zeros(4 * RATE, np.float32)))
    wanted = np.tile(np.arange(15, 157), 3)[: 4 * 86]
    assert np.array_equal(frames[:, 0], wanted)
    assert (len(onsets), contours.shape) == (344, (344, 264))


def test_maps_that_never_change_have_no_onsets() -> None:
    steady = np.full((40, 88), 0.2, np.float32)
    assert find_notes(steady, steady, NoteRules(0.5, 0.3, 11)) == []
    assert find_notes(steady[:0], steady[:0], NoteRules(0.5, 0.3, 11)) == []


def test_names_keys_and_bends() -> None:
    assert [name_of(number) for number in (21, 60, 69, 70, 108)] == ["A0", "C4", "A4", "A#4", "C8"]
    assert [key_of(hertz) for hertz in (27.5, 440.0, 4186.0, 20.0)] == [0, 48, 87, -6]
    contours = np.zeros((4, 264), np.float32)
    contours[range(4), (0, 1, 3, 2)] = 1
    assert find_bends(contours, FoundNote(0, 4, 0, 1.0)) == [0, 1, 3, 2]
    contours = contours[:, ::-1]
    assert find_bends(contours, FoundNote(0, 4, 87, 1.0)) == [2, 1, -1, 0]


def events_of(data: bytes) -> list[list[tuple[int, tuple[int, ...]]]]:
    """Read a MIDI file: of each track, the messages with their ticks, by the format's rules."""
    kind, size, form, count, ticks = struct.unpack(">4sIHHH", data[:14])
    assert (kind, size, form, ticks) == (b"MThd", 6, 1, TICKS)
    tracks, at = [], 14
    for _ in range(count):
        kind, size = struct.unpack(">4sI", data[at : at + 8])
        assert kind == b"MTrk"
        at, end, now, found = at + 8, at + 8 + size, 0, []
        while at < end:
            delta = 0
            while True:
                delta = delta << 7 | data[at] & 0x7F
                at += 1
                if data[at - 1] < 0x80:
                    break
            now += delta
            status = data[at]
            length = 3 + data[at + 2] if status == 0xFF else 2 if status >> 4 == 0xC else 3
            found.append((now, tuple(data[at : at + length])))
            at += length
        assert found[-1][1] == (0xFF, 0x2F, 0)
        tracks.append(found)
    assert at == len(data)
    return tracks


def note(start: float, end: float, pitch: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "pitch": pitch, "amplitude": 0.5, **more}


def test_a_midi_file_has_the_notes_at_their_times() -> None:
    tempo, track = events_of(write_midi([note(1.0, 200.0, 72), note(0.5, 1.0, 60, amplitude=0)]))
    assert tempo[0] == (0, (0xFF, 0x51, 3, *(500_000).to_bytes(3, "big")))
    assert track[:-1] == [
        (0, (0xC0, 4)),
        (480, (0x90, 60, 1)),  # a velocity of 0 would end a note
        (960, (0x80, 60, 0)),
        (960, (0x90, 72, 64)),
        (192_000, (0x80, 72, 0)),
    ]
    slow, track = events_of(write_midi([note(1.0, 1.0, 60)], midi_tempo=60))
    assert slow[0][1][3:] == tuple((1_000_000).to_bytes(3, "big"))
    assert [tick for tick, _ in track[1:3]] == [480, 481]
    assert len(events_of(write_midi([]))) == 1


def test_bends_end_with_their_note_and_are_not_shared() -> None:
    bent = note(0.0, 1.0, 60, pitch_bends=[0, 3, 3, -9, -9])
    _, track = events_of(write_midi([bent, note(1.0, 2.0, 62)]))
    bends = [(tick, row[1] | row[2] << 7) for tick, row in track if row[0] == 0xE0]
    assert bends == [(240, 8192 + 4096), (720, 0), (960, 8192)]  # two semitones at most
    order = [row[0] for tick, row in track if tick == 960]
    assert order == [0x80, 0xE0, 0x90]
    over = [bent, note(0.5, 2.0, 62, pitch_bends=[3, 3]), note(3.0, 4.0, 64, pitch_bends=[1])]
    _, track = events_of(write_midi(over))
    assert [tick for tick, row in track if row[0] == 0xE0] == [2880, 3840]
    tracks = events_of(write_midi(over, multiple_pitch_bends=True))
    channels = [{row[0] & 15 for _, row in track if row[0] < 0xF0} for track in tracks[1:]]
    assert channels == [{0}, {1}, {2}]
    assert all(any(row[0] >> 4 == 0xE for _, row in track) for track in tracks[1:])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"start": -1.0}, "0 or later"),
        ({"end": 0.1}, "starts at"),
        ({"end": float("inf")}, "end of note 0"),
        ({"end": 1e9}, "later than MIDI"),
        ({"pitch": 128}, "0 to 127"),
        ({"pitch": 60.5}, "0 to 127"),
        ({"amplitude": 2}, "amplitude"),
        ({"pitch_bends": ["up"]}, "bend"),
    ],
)
def test_notes_that_midi_cannot_tell_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        AudioToMidi.midi([note(0.5, 1.0, 60) | wrong])
    with pytest.raises(InputError, match="no amplitude"):
        write_midi([{"start": 0, "end": 1, "pitch": 60}])
    with pytest.raises(InputError, match="midi_tempo"):
        write_midi([], midi_tempo=1)
