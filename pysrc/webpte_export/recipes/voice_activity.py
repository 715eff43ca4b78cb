"""Silero VAD: finds the times of speech."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from webpte_export.catalog.recipe import Network, Recipe, Value, Wheel

_WEIGHTS = "silero_vad/data/silero_vad.jit"
_FRAMES, _NEW, _KEPT = 16, 512, 64  # per call; new samples of a frame, and repeated samples
_RATE = 16000


def build(files: Path) -> Network:
    import torch

    from webpte_export.catalog.sounds import noise, voice
    from webpte_export.networks.silero import VoiceActivity

    samples = _FRAMES * _NEW
    start = torch.zeros(1, 128)
    spoken = torch.from_numpy(voice(_KEPT + samples, _RATE))
    hiss = torch.from_numpy(noise(_KEPT + samples))
    numbers = torch.Generator().manual_seed(0)
    states = torch.randn(2, 1, 128, generator=numbers)
    return Network(
        VoiceActivity(files / _WEIGHTS),
        calls=[
            (_frames(spoken), start, start),
            (_frames(hiss), states[0], states[1]),
        ],
    )


def _frames(wave: Any) -> Any:
    return wave.unfold(0, _KEPT + _NEW, _NEW).clone()  # (16, 576)


def tell(outputs: Sequence[Any], _folder: Path) -> str:
    likely = outputs[0]
    return (
        f"of {len(likely)} frames of a synthesized voice, {int((likely > 0.5).sum())} are speech, "
        f"the last {likely[-1]:.0%} sure"
    )


RECIPE = Recipe(
    name="voice-activity",
    title="Silero VAD",
    task="voice-activity-detection",
    licence="MIT",
    licence_from="silero_vad-6.2.3.dist-info/licenses/LICENSE",
    wheels=(
        Wheel(
            name="silero-vad",
            version="6.2.3",
            sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
            bytes=11_317_527,
            members=(_WEIGHTS,),
        ),
    ),
    bytes=1_280_000,
    view="run",
    inputs=(
        Value(
            "frames",
            "16 frames: 512 new samples after the last 64 before them",
            rate=_RATE,
            hop=_NEW,
        ),
        Value("hidden", "what the call before returned; zeros at first", fill="zeros", hidden=True),
        Value("cell", "what the call before returned; zeros at first", fill="zeros", hidden=True),
    ),
    outputs=(
        Value("speech", "how likely each frame is speech", curve=True),
        Value("hidden", "for the next call", feeds="hidden", hidden=True),
        Value("cell", "for the next call", feeds="cell", hidden=True),
    ),
    build=build,
    tell=tell,
    notes="Tells when somebody speaks.",
)
