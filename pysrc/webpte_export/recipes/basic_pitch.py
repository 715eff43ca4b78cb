"""basic-pitch: the notes of music."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_WEIGHTS = "basic_pitch/saved_models/icassp_2022/nmp.onnx"
# How likely each key sounds, is struck, and each third of a semitone sounds.
_OUTPUTS = tuple(f"StatefulPartitionedCall:{number}" for number in (1, 2, 0))
_RATE, _WINDOW, _SECONDS = 22_050, 43_844, 1.4
_CHORD, _MELODY = (60, 64, 67), (69, 71, 72, 76)  # MIDI's numbers


def build(files: Path) -> Network:
    import torch

    from webpte_export.networks.onnx import OnnxNetwork

    chord, melody = (torch.from_numpy(_window(notes)) for notes in (_CHORD, _MELODY))
    return Network(
        OnnxNetwork(files / _WEIGHTS, _OUTPUTS),
        calls=[(chord,), (melody,), (torch.zeros_like(chord),)],
    )


def _window(notes: tuple[int, ...]) -> Any:
    from webpte_export.catalog.sounds import music

    step = 0 if notes == _CHORD else 0.4
    played = [(0.2 + step * at, _SECONDS - 0.2, note) for at, note in enumerate(notes)]
    return music(played, _WINDOW, _RATE).reshape(1, _WINDOW, 1)


async def tell(folder: Path) -> str:
    import webpte
    from webpte_export.catalog.sounds import music

    played = [(0.2, _SECONDS - 0.2, note) for note in _CHORD]
    samples = music(played, int(_SECONDS * _RATE), _RATE)
    async with await webpte.tasks.open(RECIPE.task, folder, device="numpy") as task:
        found = await task(samples)
    heard = ", ".join(f"{one['name']} at {one['start']:.2f} s" for one in found)
    return f"a chord of C4, E4 and G4 at 0.20 s is heard as {heard}"


RECIPE = Recipe(
    name="basic-pitch",
    title="basic-pitch",
    task="audio-to-midi",
    licence="Apache-2.0",
    licence_from="basic_pitch-0.4.0.dist-info/LICENSE",
    wheels=(
        Wheel(
            name="basic-pitch",
            version="0.4.0",
            sha256="738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
            bytes=758_279,
            members=(_WEIGHTS,),
        ),
    ),
    bytes=204_000,
    view="task",
    inputs=(Value("samples", "a window of two seconds", rate=_RATE),),
    outputs=(
        Value("notes", "how likely each of 88 keys sounds, in 172 frames"),
        Value("onsets", "how likely it is struck"),
        Value("contours", "how likely each third of a semitone sounds"),
    ),
    build=build,
    tell_task=tell,
    notes="Finds the notes of one instrument or voice, chords too, and saves them as MIDI.",
)
