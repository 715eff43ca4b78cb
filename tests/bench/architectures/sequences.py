"""Recurrent, convolutional and attention models of sequences, sets, graphs and tables."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from bench.architectures.rows import Architecture, Residual, tokens, values


class Recurrent(nn.Module):
    """Tokens through an embedding and one of torch.nn's recurrent layers."""

    def __init__(self, kind: Any, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(90, 16)
        self.layer = kind(16, 16, batch_first=True, **options)
        self.head = nn.Linear(32 if options.get("bidirectional") else 16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.embed(x))[0])


class Cells(nn.Module):
    """One step of an LSTM; the caller keeps its state."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.head = nn.LSTMCell(8, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, cell = self.cell(x, (hidden, cell))
        return self.head(hidden), hidden, cell


class Counter(nn.Module):
    """A model with its state in a buffer: its output depends on earlier calls."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.register_buffer("state", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        self.state.mul_(0.9).add_(torch.tanh(self.mix(x)))
        return self.state * 2


class TemporalBlock(nn.Module):
    """A causal dilated convolution with a residual."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(channels, channels, 3, dilation=dilation)

    def forward(self, x: Tensor) -> Tensor:
        return f.relu(x + f.relu(self.conv(f.pad(x, (self.pad, 0)))))


class WaveBlock(nn.Module):
    def __init__(self, dilation: int) -> None:
        super().__init__()
        self.pad = dilation
        self.filter, self.gate = (nn.Conv1d(8, 8, 2, dilation=dilation) for _ in range(2))
        self.out = nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        past = f.pad(x, (self.pad, 0))
        return x + self.out(torch.tanh(self.filter(past)) * torch.sigmoid(self.gate(past)))


class TextCnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(90, 16)
        self.convs = nn.ModuleList(nn.Conv1d(16, 8, size) for size in (2, 3, 4))
        self.head = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).transpose(1, 2)
        return self.head(torch.cat([f.relu(conv(x)).amax(2) for conv in self.convs], 1))


class EncoderDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Transformer(16, 2, 1, 1, 32, batch_first=True, dropout=0.0)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        size = target.shape[1]
        mask = torch.full((size, size), -1e9).triu(1)
        return self.body(source, target, tgt_mask=mask)


class Encoder(nn.Module):
    """A transformer over tokens with sinusoidal position embeddings."""

    def __init__(self, norm_first: bool = False, activation: str = "relu") -> None:
        super().__init__()
        self.embed = nn.Embedding(90, 16)
        angles = torch.arange(32)[:, None] * torch.exp(torch.arange(8) * (-math.log(1e4) / 8))
        self.register_buffer("places", torch.cat([angles.sin(), angles.cos()], 1))
        layer = nn.TransformerEncoderLayer(
            16, 2, 32, 0.0, activation, batch_first=True, norm_first=norm_first
        )
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(self.embed(x) + self.places[: x.shape[1]])


class AdditiveAttention(nn.Module):
    """Bahdanau attention: each step of a GRU attends to the whole source."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.score = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.cell = nn.GRUCell(16, 8)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        hidden, found = torch.zeros(source.shape[0], 8), []
        for step in range(target.shape[1]):
            scores = self.score(torch.tanh(self.query(hidden)[:, None] + self.key(source)))
            seen = (scores.softmax(1) * source).sum(1)
            hidden = self.cell(torch.cat([target[:, step], seen], 1), hidden)
            found.append(hidden)
        return torch.stack(found, 1)


class LinearAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        query, key = f.elu(query) + 1, f.elu(key) + 1
        state = key.transpose(1, 2) @ value
        return query @ state / (query @ key.sum(1)[..., None] + 1e-6)


class Perceiver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.latents = nn.Parameter(torch.randn(1, 4, 16))
        self.read = nn.MultiheadAttention(16, 2, batch_first=True)
        self.think = nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.think(self.read(self.latents, x, x, need_weights=False)[0])


class GatedMlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.enter, self.leave = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(16, 16)
        self.along = nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        kept, gate = f.gelu(self.enter(self.norm(x))).chunk(2, -1)
        return x + self.leave(kept * self.along(gate.transpose(1, 2)).transpose(1, 2))


class Experts(nn.Module):
    """A mixture of experts: all of them run, and the best two are summed."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        best, which = self.router(x).topk(2, -1)
        weights = torch.zeros(*x.shape[:-1], 4).scatter(-1, which, best.softmax(-1))
        each = torch.stack([expert(x) for expert in self.experts], -1)
        return (each * weights[..., None, :]).sum(-1)


class StateSpace(nn.Module):
    """A diagonal state space model, computed as one convolution over the sequence."""

    def __init__(self, length: int = 24) -> None:
        super().__init__()
        self.decay, self.mix = nn.Parameter(-torch.rand(4, 8)), nn.Parameter(torch.randn(4, 8))
        self.length, self.skip = length, nn.Parameter(torch.ones(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        times = torch.arange(self.length)
        kernel = (self.mix[..., None] * torch.exp(self.decay[..., None] * times)).sum(1)
        past = f.pad(x, (self.length - 1, 0))
        return f.conv1d(past, kernel.flip(1)[:, None], groups=4) + self.skip * x


class GraphLayer(nn.Module):
    """A graph network: nodes (n, width) and an adjacency matrix (n, n)."""

    def __init__(self, attention: bool) -> None:
        super().__init__()
        self.lin, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)
        self.attention = attention

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        nodes = self.lin(nodes)
        if self.attention:
            scores = f.leaky_relu(self.left(nodes) + self.right(nodes).T, 0.2)
            return f.elu(scores.masked_fill(edges == 0, -1e9).softmax(1) @ nodes)
        degree = edges.sum(1, keepdim=True).clamp(min=1).rsqrt()
        return f.relu((degree * edges * degree.T) @ nodes)


class Points(nn.Module):
    """PointNet: the largest feature of all points."""

    def __init__(self) -> None:
        super().__init__()
        self.each = nn.Sequential(
            nn.Conv1d(3, 16, 1), nn.BatchNorm1d(16), nn.ReLU(), nn.Conv1d(16, 32, 1)
        )
        self.head = nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.each(x).max(2).values)


class Coupling(nn.Module):
    """RealNVP: one half is scaled and shifted by functions of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, moved = x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = scale.tanh()
        return torch.cat([kept, moved * scale.exp() + shift], 1), scale.sum(1)


class FactorMachine(nn.Module):
    """DeepFM: a factorization machine and an MLP, summed."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.bias = nn.Embedding(90, 8), nn.Embedding(90, 1)
        self.deep = nn.Sequential(nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        vectors = self.embed(x)
        pairs = 0.5 * (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(pairs + self.bias(x).sum(1) + self.deep(vectors.flatten(1)))


class Field(nn.Module):
    """NeRF: positions in a Fourier encoding -> colour and density."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(27, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        waves = [
            x,
            *(wave(x * 2.0**power) for power in range(4) for wave in (torch.sin, torch.cos)),
        ]
        found = self.net(torch.cat(waves, -1))
        return found[..., :3].sigmoid(), f.softplus(found[..., 3:])


class Waves(nn.Module):
    """SIREN: sines as activations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, 16), nn.Linear(16, 16), nn.Linear(16, 1)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = torch.sin(3.0 * layer(x))
        return self.layers[-1](x)


class Dueling(nn.Module):
    """A dueling Q-network: values and advantages."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 8, 8, 4), nn.ReLU(), nn.Conv2d(8, 8, 4, 2), nn.ReLU(), nn.Flatten()
        )
        self.value, self.gain = nn.Linear(8 * 9, 1), nn.Linear(8 * 9, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        gain = self.gain(x)
        return self.value(x) + gain - gain.mean(1, keepdim=True)


def mlp() -> nn.Module:
    return nn.Sequential(
        nn.Linear(20, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3), nn.LogSoftmax(1)
    )


def volumes() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(3, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
        nn.Conv3d(8, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def factored_volumes() -> nn.Module:
    return nn.Sequential(
        nn.Conv3d(3, 8, (1, 3, 3), padding=(0, 1, 1)), nn.ReLU(),
        nn.Conv3d(8, 8, (3, 1, 1), padding=(1, 0, 0)), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def speech() -> nn.Module:
    return nn.Sequential(
        nn.Conv1d(40, 32, 11, 2, 5), nn.BatchNorm1d(32), nn.ReLU(),
        nn.Conv1d(32, 32, 5, padding=2), nn.Hardtanh(0, 20), nn.Conv1d(32, 29, 1), nn.LogSoftmax(1),
    )  # fmt: skip


def any_batch() -> tuple[dict[int, Any]]:
    from torch.export import Dim

    return ({0: Dim("batch", min=1, max=16)},)


def any_length() -> tuple[dict[int, Any]]:
    from torch.export import Dim

    return ({1: Dim("length", min=2, max=32)},)


def ring(size: int = 9) -> Tensor:
    return torch.eye(size) + torch.eye(size).roll(1, 0) + torch.eye(size).roll(-1, 0)


ROWS = (
    Architecture("mlp", mlp, values(4, 20)),
    Architecture("mlp_any_batch", mlp, values(4, 20), any_batch, lambda: [(torch.randn(1, 20),), (torch.randn(16, 20),)]),
    Architecture("autoencoder", lambda: nn.Sequential(nn.Linear(20, 4), nn.SELU(), nn.Linear(4, 20)), values(4, 20)),
    Architecture("resmlp", lambda: nn.Sequential(Residual(nn.Sequential(nn.Linear(20, 40), nn.Mish(), nn.Linear(40, 20)))), values(4, 20)),
    Architecture("rnn", lambda: Recurrent(nn.RNN), tokens()),
    Architecture("lstm", lambda: Recurrent(nn.LSTM), tokens()),
    Architecture("lstm_both_ways", lambda: Recurrent(nn.LSTM, bidirectional=True, num_layers=2), tokens(6)),
    Architecture("lstm_step", Cells, lambda: (torch.randn(1, 8), torch.randn(1, 16), torch.randn(1, 16))),
    Architecture("gru", lambda: Recurrent(nn.GRU), tokens()),
    Architecture("state_in_a_buffer", Counter, values(1, 8), None, lambda: [(torch.randn(1, 8),) for _ in range(3)]),
    Architecture("tcn", lambda: nn.Sequential(nn.Conv1d(4, 8, 1), *(TemporalBlock(8, 2**n) for n in range(3))), values(1, 4, 24)),
    Architecture("wavenet", lambda: nn.Sequential(nn.Conv1d(1, 8, 1), *(WaveBlock(2**n) for n in range(4)), nn.Conv1d(8, 16, 1)), values(1, 1, 32)),
    Architecture("wav2letter", speech, values(1, 40, 32)),
    Architecture("text_cnn", TextCnn, tokens()),
    Architecture("transformer_encoder", Encoder, tokens()),
    Architecture("transformer_any_length", lambda: Encoder(True, "gelu"), tokens(12), any_length, lambda: [(torch.randint(0, 90, (1, 31)),)]),
    Architecture("transformer", EncoderDecoder, lambda: (torch.randn(1, 7, 16), torch.randn(1, 5, 16))),
    Architecture("seq2seq_attention", AdditiveAttention, lambda: (torch.randn(1, 6, 8), torch.randn(1, 4, 8))),
    Architecture("linear_attention", LinearAttention, values(1, 12, 16)),
    Architecture("perceiver", Perceiver, values(1, 20, 16)),
    Architecture("gmlp", GatedMlp, values(1, 12, 16)),
    Architecture("mixture_of_experts", Experts, values(1, 6, 16)),
    Architecture("state_space", StateSpace, values(1, 4, 24)),
    Architecture("c3d", volumes, values(1, 3, 4, 16, 16)),
    Architecture("r2plus1d", factored_volumes, values(1, 3, 4, 16, 16)),
    Architecture("gcn", lambda: GraphLayer(False), lambda: (torch.randn(9, 8), ring())),
    Architecture("gat", lambda: GraphLayer(True), lambda: (torch.randn(9, 8), ring())),
    Architecture("pointnet", Points, values(1, 3, 40)),
    Architecture("real_nvp", Coupling, values(3, 8)),
    Architecture("deep_fm", FactorMachine, tokens(6, batch=3)),
    Architecture("nerf", Field, values(16, 3)),
    Architecture("siren", Waves, values(16, 2)),
    Architecture("dueling_dqn", Dueling, values(1, 4, 36, 36)),
)  # fmt: skip
