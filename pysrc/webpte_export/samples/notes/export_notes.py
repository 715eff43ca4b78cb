"""Exports the sample `notes`.

    python -m webpte_export.samples.notes.export_notes OUT_DIR

OUT_DIR gets notes.pte, the names of its classes, a melody as example, and notes.suite, PyTorch's
results for the tests.
"""

from __future__ import annotations

import argparse
import json
import wave
from pathlib import Path

import torch
from torch import Tensor
from torch.export import Dim

from webpte_export import Report, export
from webpte_export.samples.notes.network import (
    FRAME,
    HOP,
    MOST_FRAMES,
    RATE,
    Notes,
    frames_of,
    labels,
    tone,
)

STEP = 1 / 64  # grid of the tests' samples, which then compress well
MELODY = (60, 64, 67, 72)  # C, E, G and C again
BEAT = RATE // 5  # samples per note


def export_notes(out: Path) -> Report:
    torch.manual_seed(3)
    sounds = [0.3 * tone(69, FRAME + 2 * HOP), 0.3 * tone(60.2, overtones=False)]
    noise = 0.1 * torch.randn(2, FRAME)
    first, *others = [_coarse(call) for call in (*map(frames_of, sounds), noise)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "notes.labels.json").write_text(json.dumps(labels(), ensure_ascii=False) + "\n")
    write_melody(out / "notes.example.wav")
    return export(
        Notes().eval(),
        (first,),
        out / "notes",
        dynamic_shapes=({0: Dim("frames", min=1, max=MOST_FRAMES)},),
        more_inputs=[(call,) for call in others],
    )


def write_melody(file: Path) -> None:
    """Write a few notes as a small sound file: bytes, and every second sample only."""
    fade = torch.clamp(torch.arange(BEAT, 0, -1) / (BEAT / 4), max=1)
    samples = torch.cat([tone(note, BEAT) * fade for note in MELODY])
    with wave.open(str(file), "wb") as out:
        out.setparams((1, 1, RATE // 2, 0, "NONE", ""))
        out.writeframes((128 + 100 * samples[::2]).to(torch.uint8).numpy().tobytes())


def _coarse(frames: Tensor) -> Tensor:
    return torch.round(frames / STEP) * STEP


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    print(export_notes(parser.parse_args().out).text())


if __name__ == "__main__":
    main()
