"""Silero's voice activity detector for 16 kHz, many frames per call."""

from __future__ import annotations

from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own habit
from torch import Tensor, nn

_BINS = 129  # frequencies of a spectrum
_REFLECTED = 64


def _stored_names() -> dict[str, str]:
    """Return the name of each weight in silero_vad.jit.

    The package's safetensors have the same layers, but weights of an earlier version.
    """
    both, gates = ("weight", "bias"), ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    names = {"stft_conv.weight": "_model.stft.forward_basis_buffer"}
    names |= {
        f"conv{at + 1}.{kind}": f"_model.encoder.{at}.reparam_conv.{kind}"
        for at in range(4)
        for kind in both
    }
    names |= {f"lstm_cell.{kind}": f"_model.decoder.rnn.{kind}" for kind in gates}
    return names | {f"final_conv.{kind}": f"_model.decoder.decoder.2.{kind}" for kind in both}


class VoiceActivity(nn.Module):
    """Frames (n, 576) and two states (1, 128) -> probability of speech (n), the new states.

    A frame is 512 new samples after the last 64 of the frame before.
    """

    def __init__(self, weights: Path) -> None:
        super().__init__()
        self.stft_conv = nn.Conv1d(1, 2 * _BINS, 256, 128, bias=False)
        self.conv1 = nn.Conv1d(_BINS, 128, 3, 1, 1)
        self.conv2 = nn.Conv1d(128, 64, 3, 2, 1)
        self.conv3 = nn.Conv1d(64, 64, 3, 2, 1)
        self.conv4 = nn.Conv1d(64, 128, 3, 1, 1)
        self.lstm_cell = nn.LSTMCell(128, 128)
        self.final_conv = nn.Conv1d(128, 1, 1)
        found = torch.jit.load(str(weights), map_location="cpu").state_dict()
        self.load_state_dict({name: found[stored] for name, stored in _stored_names().items()})

    def forward(
        self, frames: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        features = self._features(frames)  # (n, 128)
        states = []
        for frame in features.split(1):
            hidden, cell = self.lstm_cell(frame, (hidden, cell))
            states.append(hidden)
        heard = F.relu(torch.cat(states)).unsqueeze(-1)  # (n, 128, 1)
        return torch.sigmoid(self.final_conv(heard)).reshape(-1), hidden, cell

    def _features(self, frames: Tensor) -> Tensor:
        # Equals F.pad(mode="reflect"), which the exporter lowers to host kernels.
        end = frames[:, -_REFLECTED - 1 : -1].flip(1)
        waves = self.stft_conv(torch.cat([frames, end], 1).unsqueeze(1))  # (n, 258, 4)
        real, imaginary = waves[:, :_BINS], waves[:, _BINS:]
        x = torch.sqrt(real * real + imaginary * imaginary)
        for layer in (self.conv1, self.conv2, self.conv3, self.conv4):
            x = F.relu(layer(x))
        return x.squeeze(-1)
