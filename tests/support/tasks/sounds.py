"""Calls of the tasks that hear or speak."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from support.harness import sounds
from support.llm.small_seq2seq import SPOKEN, kept, sound, text_of, whisper_folder
from support.music import music_cases
from support.tasks.calls import TaskCall, placed, read_json


def calls() -> Iterator[TaskCall]:
    yield from _heard()
    yield from _spoken()


def _heard() -> Iterator[TaskCall]:
    task, number = "automatic-speech-recognition", 1
    whisper, case = placed(whisper_folder(), "whisper"), SPOKEN[number]
    wanted = {"text": text_of(kept("whisper")[f"texts{number}"].tolist())}
    args, options = [sound(case.seconds)], {"language": case.language}
    yield TaskCall(task, whisper, args, options, wanted)
    moonshine = placed(sounds.moonshine_folder(), "moonshine")
    with np.load(sounds.HEARD_TOKENS) as told:
        tokens = [token for token in told["tokens0"].tolist() if token not in (1, 2)]
    args, wanted = [sound(sounds.HEARD[0])], {"text": text_of(tokens)}
    yield TaskCall(task, moonshine, args, {}, wanted)
    name, options = music_cases.CASES[0]
    fields = ("start", "end", "pitch", "amplitude", "pitch_bends")
    rows = read_json(music_cases.EXPECTED)[0]
    notes = [dict(zip(fields, row, strict=True)) for row in rows]
    args = [music_cases.SOUNDS[name]()]
    yield TaskCall("audio-to-midi", "music", args, options, notes)


def _spoken() -> Iterator[TaskCall]:
    with np.load(sounds.SPOKEN) as told:
        for number in (1, 4):  # with drawn, and with fixed durations
            voice, text, options = sounds.SAID[number]
            names = sorted(name for name in told if name.startswith(f"noise{number}_"))
            audio, rate = told[f"audio{number}"].tolist(), int(told[f"rate{number}"])
            yield TaskCall(
                "text-to-speech",
                placed(sounds.voices_folder() / voice, f"voice-{voice}"),
                [text],
                options,
                {"audio": audio, "sampling_rate": rate},
                noise=[told[name] for name in names],
            )
