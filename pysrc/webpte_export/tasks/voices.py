"""Voices: VITS (also MMS-TTS) in two methods, because durations decide lengths.

text_encoder(tokens, noise) -> logarithms of durations, means and log variances of each token
decoder(latents)            -> samples

Between the methods, the host repeats each token's mean and variance for its duration and adds
noise. Both methods give transformers' results; code that cannot be exported is replaced: relative
positions by reshaping, splines of values that a mask selects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from webpte_export.errors import ExportError
from webpte_export.exporter import PreparedMethod
from webpte_export.tasks.heads import LONGEST

READER = "AutoModelForTextToWaveform"  # the class of transformers
FRAMES_PER_TOKEN = 4  # the longest speech, in frames, for the longest text
_LEAST_WIDTH = _LEAST_HEIGHT = _LEAST_SLOPE = 1e-3  # of a spline's parts


class TextEncoder(nn.Module):
    """The encoder of VITS: tokens (1, length), noise (1, 2, length) for durations.

    Returns logarithms of durations (1, length), in frames, then means and log variances (1, length,
    width). A model without random durations takes no noise.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.text, self.durations = model.text_encoder, model.duration_predictor
        self.draws = model.config.use_stochastic_duration_prediction
        self.width, self.window = model.config.flow_size, model.config.window_size or 0
        self.scale = math.sqrt(model.config.hidden_size)

    def forward(self, tokens: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        states = self.text.embed_tokens(tokens) * self.scale
        places = torch.arange(tokens.shape[1], device=tokens.device)
        distances = (places[None, :] - places[:, None]).to(torch.float32)  # (length, length)
        steps = range(-self.window, self.window + 1)
        near = [(distances == step).to(torch.float32) for step in steps]
        for layer in self.text.encoder.layers:
            attended = attend(layer.attention, states, near)
            states = layer.layer_norm(states + attended)
            states = layer.final_layer_norm(states + feed_forward(layer.feed_forward, states))
        hidden = states.transpose(1, 2)
        stats = self.text.project(hidden).transpose(1, 2)
        if self.draws:
            assert noise is not None  # the export passes it
            logs = draw_durations(self.durations, hidden, noise)
        else:
            ones = torch.ones_like(hidden[:, :1])
            logs = self.durations(hidden, ones)
        return logs[:, 0], stats[:, :, : self.width], stats[:, :, self.width :]


def attend(layer: Any, states: Tensor, near: Sequence[Tensor]) -> Tensor:
    """Apply attention with relative positions for tokens up to `window_size` apart.

    near   for each such distance, 1 where two tokens are so far apart (length, length)
    """
    length, heads, width = states.shape[1], layer.num_heads, layer.head_dim

    def split(values: Tensor) -> Tensor:
        return values.reshape(1, length, heads, width).transpose(1, 2)

    queries = split(layer.q_proj(states) * layer.scaling)
    keys, values = split(layer.k_proj(states)), split(layer.v_proj(states))
    logits = queries @ keys.transpose(2, 3)  # (1, heads, length, length)
    if layer.window_size:
        known = queries @ layer.emb_rel_k[0].transpose(0, 1)  # (1, heads, length, 2 window + 1)
        for at, places in enumerate(near):
            logits = logits + known[:, :, :, at : at + 1] * places
    shares = torch.softmax(logits, dim=-1)
    found = shares @ values
    if layer.window_size:
        parts = [(shares * places).sum(dim=-1, keepdim=True) for places in near]
        found = found + torch.cat(parts, dim=-1) @ layer.emb_rel_v[0]
    return layer.out_proj(found.transpose(1, 2).reshape(1, length, heads * width))


def feed_forward(layer: Any, states: Tensor) -> Tensor:
    """Apply the two convolutions of a layer of the encoder to (1, length, width)."""
    hidden = states.transpose(1, 2)
    for convolution, function in ((layer.conv_1, layer.act_fn), (layer.conv_2, nn.Identity())):
        size = convolution.kernel_size[0]
        hidden = functional.pad(hidden, [(size - 1) // 2, size // 2]) if size > 1 else hidden
        hidden = function(convolution(hidden))
    return hidden.transpose(1, 2)


def draw_durations(predictor: Any, hidden: Tensor, noise: Tensor) -> Tensor:
    """Return logarithms of durations, (1, 1, length), computed by flows from noise."""
    ones = torch.ones_like(hidden[:, :1])
    given = predictor.conv_proj(predictor.conv_dds(predictor.conv_pre(hidden), ones))
    affine, _, *flows = predictor.flows  # the flow after the first was for training alone
    first, second = noise[:, :1], noise[:, 1:]
    for flow in reversed(flows):
        first, second = second, first
        states = flow.conv_dds(flow.conv_pre(first), ones, given)
        second = spline(flow, flow.conv_proj(states)[0].transpose(0, 1), second)
    first, _ = second, first
    change, scale = affine.translate[:1], torch.exp(-affine.log_scale[:1])
    return (first - change) * scale


def spline(flow: Any, made: Tensor, inputs: Tensor) -> Tensor:
    """Invert a monotonic spline of rational quadratic parts at inputs (1, 1, length).

    made   parameters of each input's spline, (length, 3 * parts - 1)

    The spline goes from -bound to bound; inputs outside stay unchanged.
    """
    parts, bound = flow.num_bins, flow.tail_bound
    root = math.sqrt(flow.filter_channels)
    widths = edges(made[:, :parts] / root, _LEAST_WIDTH, bound)  # (length, parts + 1)
    heights = edges(made[:, parts : 2 * parts] / root, _LEAST_HEIGHT, bound)
    # At both ends the slope is 1, as outside.
    slopes = _LEAST_SLOPE + functional.softplus(made[:, 2 * parts :])
    end = torch.ones_like(slopes[:, :1])
    slopes = torch.cat([end, slopes, end], dim=1)
    values = inputs[0].transpose(0, 1)  # (length, 1)
    inside = values.clamp(-bound, bound)
    # 1 for the part that an input is in, 0 for other parts.
    above = (inside >= heights[:, :-1]).to(torch.float32)
    chosen = above - torch.cat([above[:, 1:], torch.zeros_like(above[:, :1])], dim=1)

    def pick(several: Tensor) -> Tensor:
        return (several * chosen).sum(dim=1, keepdim=True)

    left, width = pick(widths[:, :-1]), pick(widths[:, 1:] - widths[:, :-1])
    low, height = pick(heights[:, :-1]), pick(heights[:, 1:] - heights[:, :-1])
    slope, next_slope = pick(slopes[:, :-1]), pick(slopes[:, 1:])
    steep = height / width
    bent = slope + next_slope - 2 * steep
    over = inside - low
    a = height * (steep - slope) + over * bent
    b = height * slope - over * bent
    c = -steep * over
    share = (2 * c) / (-b - torch.sqrt(torch.relu(b * b - 4 * a * c)))
    found = share * width + left + (values - inside)
    return found.transpose(0, 1)[None]


def edges(logits: Tensor, least: float, bound: float) -> Tensor:
    """Return the borders of the parts of a spline, from -bound to bound, (length, parts + 1)."""
    parts = logits.shape[1]
    sizes = least + (1 - least * parts) * torch.softmax(logits, dim=1)
    inner = 2 * bound * torch.cumsum(sizes, dim=1)[:, :-1] - bound
    end = torch.full_like(inner[:, :1], bound)
    return torch.cat([-end, inner, end], dim=1)


class SpeechDecoder(nn.Module):
    """The decoder of VITS: latents (1, width, frames) become samples (1, count)."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.flows, self.vocoder = model.flow.flows, model.decoder

    def forward(self, latents: Tensor) -> Tensor:
        for flow in reversed(self.flows):
            latents = torch.flip(latents, [1])
            half = flow.half_channels
            first, second = latents[:, :half], latents[:, half:]
            mean = flow.conv_post(wave_net(flow.wavenet, flow.conv_pre(first)))
            latents = torch.cat([first, second - mean], dim=1)
        samples: Tensor = self.vocoder(latents)
        return samples[:, 0]


def wave_net(net: Any, states: Tensor) -> Tensor:
    """Apply gated convolutions to (1, width, frames), and add up their results."""
    width, total = net.hidden_size, None
    for number, (gated, mixing) in enumerate(zip(net.in_layers, net.res_skip_layers, strict=True)):
        both = gated(states)
        mixed = mixing(torch.tanh(both[:, :width]) * torch.sigmoid(both[:, width:]))
        if number < net.num_layers - 1:
            states = states + mixed[:, :width]
            mixed = mixed[:, width:]
        total = mixed if total is None else total + mixed
    assert total is not None  # there is a layer
    return total


def split_vits(model: Any, max_length: int | None) -> Mapping[str, PreparedMethod]:
    """Return the methods of a model; texts have up to `max_length` tokens."""
    config = model.config
    if config.model_type != "vits" or config.num_speakers > 1:
        raise ExportError(
            f"the model is a {config.model_type} of {getattr(config, 'num_speakers', 1)} speakers; "
            "known is vits of one speaker (as MMS-TTS) for text-to-speech."
        )
    for module in model.modules():
        if parametrize.is_parametrized(module, "weight"):  # a norm and a direction, for training
            parametrize.remove_parametrizations(module, "weight")
    longest = max_length or LONGEST
    numbers = torch.Generator().manual_seed(0)
    encoder, decoder = TextEncoder(model).eval(), SpeechDecoder(model).eval()

    def text(length: int) -> tuple[Tensor, ...]:
        tokens = torch.randint(0, config.vocab_size, (1, length), generator=numbers)
        noise = torch.randn(1, 2, length, generator=numbers) * 0.8
        return (tokens, noise) if encoder.draws else (tokens,)

    def latents(frames: int) -> tuple[Tensor, ...]:
        return (torch.randn(1, config.flow_size, frames, generator=numbers),)

    length = torch.export.Dim("length", min=2, max=longest)
    frames = torch.export.Dim("frames", min=2, max=FRAMES_PER_TOKEN * longest)
    sizes: tuple[Any, ...] = ({1: length}, {2: length}) if encoder.draws else ({1: length},)
    return {
        "text_encoder": PreparedMethod(encoder, [text(7), text(2), text(23)], sizes),
        "decoder": PreparedMethod(decoder, [latents(9), latents(2), latents(31)], ({2: frames},)),
    }
