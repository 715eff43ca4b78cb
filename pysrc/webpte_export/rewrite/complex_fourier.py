"""Rules for Fourier transforms of pairs of real tensors, and the inverse of stft."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from webpte_export.rewrite.complex_rules import Pair, as_pair, rule


def _moved(x: Any, dim: int) -> Any:
    if isinstance(x, Pair):
        return Pair(x.re.movedim(dim, -1), x.im.movedim(dim, -1))
    return x.movedim(dim, -1)


def _scaled(run: Any, x: Any, norm: int, sizes: Sequence[int]) -> Any:
    """Apply the normalization of a transform: 0 for none, 1 by the root of n, 2 by n."""
    n = float(np.prod(sizes))
    factor = (1.0, n**-0.5, 1 / n)[norm]
    if norm == 0:
        return x
    return Pair(x.re * factor, x.im * factor) if isinstance(x, Pair) else x * factor


def _c2c(run: Any, x: Any, dims: Sequence[int], sign: int) -> Any:
    for dim in dims:
        moved = _moved(x, dim)
        given = (moved.re, moved.im) if isinstance(moved, Pair) else (moved, None)
        a, b = run.fourier.transform(*given, sign)
        x = Pair(a.movedim(-1, dim), b.movedim(-1, dim))
    return x


def _static(run: Any, sizes: Sequence[Any]) -> None:
    if not all(isinstance(size, int) for size in sizes):
        raise run.refusal(
            "a Fourier transform is along a dim of changing size.",
            "Give it a fixed size: pad the signal, or cut it into frames of one length (stft).",
        )


@rule("_fft_c2c")
def _fft_c2c(run: Any, x: Any, dims: Sequence[int], norm: int, forward: bool) -> Any:
    sizes = [x.shape[dim] for dim in dims]
    _static(run, sizes)
    return _scaled(run, _c2c(run, x, dims, -1 if forward else 1), norm, sizes)


@rule("_fft_r2c")
def _fft_r2c(run: Any, x: Tensor, dims: Sequence[int], norm: int, onesided: bool) -> Any:
    sizes = [x.shape[dim] for dim in dims]
    _static(run, sizes)
    last = dims[-1]
    kept = sizes[-1] // 2 + 1 if onesided else sizes[-1]
    a, b = run.fourier.transform(x.movedim(last, -1), None, -1, kept)
    found = Pair(a.movedim(-1, last), b.movedim(-1, last))
    return _scaled(run, _c2c(run, found, dims[:-1], -1), norm, sizes)


@rule("_fft_c2r")
def _fft_c2r(run: Any, x: Any, dims: Sequence[int], norm: int, size: int) -> Any:
    last = dims[-1]
    sizes = [*(x.shape[dim] for dim in dims[:-1]), size]
    _static(run, sizes)
    moved = _moved(_c2c(run, as_pair(x), dims[:-1], 1), last)
    found = run.fourier.to_real(moved.re, moved.im, size).movedim(-1, last)
    return _scaled(run, found, norm, sizes)


def istft(
    x: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """Invert torch.stft: frames are transformed, windowed, and added where they overlap.

    PyTorch's own looks at values (whether the window's overlap is 0 somewhere).
    """
    win_length = n_fft if win_length is None else win_length
    hop_length = win_length // 4 if hop_length is None else hop_length
    if window is None:
        window = torch.ones(win_length)
    side = (n_fft - win_length) // 2
    window = torch.nn.functional.pad(window, (side, n_fft - win_length - side))
    frames = x.transpose(-1, -2)
    norm = "ortho" if normalized else "backward"
    if onesided is False or return_complex:
        parts = torch.fft.ifft(frames, n=n_fft, norm=norm).real
    else:
        parts = torch.fft.irfft(frames, n=n_fft, norm=norm)
    batched = parts if parts.dim() == 3 else parts.unsqueeze(0)
    weight = torch.diag(window).unsqueeze(1)  # (n_fft, 1, n_fft)
    added = torch.conv_transpose1d(batched.transpose(1, 2), weight, stride=hop_length)
    squares = torch.diag(window * window).unsqueeze(1)
    ones = torch.ones_like(batched[:1].transpose(1, 2))
    overlap = torch.conv_transpose1d(ones, squares, stride=hop_length)
    start = n_fft // 2 if center else 0
    total = added.shape[-1]
    end = total - (n_fft // 2 if center else 0) if length is None else start + length
    found = added[..., start : min(end, total)] / overlap[..., start : min(end, total)]
    if length is not None and end > total:
        found = torch.nn.functional.pad(found, (0, end - total))
    found = found[:, 0]
    return found if parts.dim() == 3 else found[0]
