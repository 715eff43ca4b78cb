"""Runs texts through a model, layer by layer, so that each layer can be calibrated.

A linear layer is rounded (`gptq.py`) when all texts have reached it, and computes with the rounded
weights from then on, so that later layers are calibrated with their final inputs. A single pass
over the texts is enough, and only the texts' values at a single layer are kept. The model may have
any form in which every text takes the same way through the layers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from webpte_export.errors import ExportError
from webpte_export.gptq import Inputs, RoundedWeights, relative_error, round_weights


@dataclass(frozen=True)
class CalibratedLayer:
    """A layer's rounded weights, the weights before, and the change of its results."""

    rounded: RoundedWeights
    weight: Tensor  # (rows, width), float32
    error: float  # squared, relative to the squared results


def calibrate(
    model: nn.Module, names: Collection[str], runs: Sequence[Callable[[], Any]], group: int
) -> dict[str, CalibratedLayer]:
    """Round linear layers with these names, as soon as all runs have reached them.

    The layers then have the rounded weights. Layers that no run reaches stay unchanged, and are not
    in the result. Each run computes a text by the model; all texts have the same length.
    """
    turns = _Turns(len(runs))
    found: dict[str, CalibratedLayer] = {}
    seen: dict[str, Inputs] = {}
    arrived: dict[str, int] = {}

    def meet(name: str, layer: nn.Linear, x: Tensor) -> None:
        # The other layers are meeting places, too: runs share the model's caches, and must not be
        # further apart than a layer.
        if name in names and name not in found:
            seen.setdefault(name, Inputs.none(layer.in_features)).add(x)
            arrived[name] = arrived.get(name, 0) + 1
            if len(seen) > 1:
                raise ExportError(
                    "the texts of the calibration take different ways through the model: some come "
                    f"to {name}, some to {next(iter(seen))}. Export it without calibration."
                )
            if arrived[name] == len(runs):
                found[name] = _round(name, layer, seen.pop(name), group)
        turns.hand_over()

    hooks = [
        layer.register_forward_pre_hook(lambda layer, given, name=name: meet(name, layer, given[0]))
        for name, layer in model.named_modules()
        if isinstance(layer, nn.Linear)
    ]
    try:
        turns.run(runs)
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _round(name: str, layer: nn.Linear, inputs: Inputs, group: int) -> CalibratedLayer:
    if not bool(inputs.products.isfinite().all()):
        raise ExportError(
            f"the text gives {name} inputs that are not finite: the model computes wrongly in "
            "float32, and cannot be calibrated."
        )
    before = layer.weight.detach()
    rounded = round_weights(before, inputs, group)
    after = rounded.weights()
    layer.weight = nn.Parameter(after, requires_grad=False)
    return CalibratedLayer(rounded, before, relative_error(before, after, inputs))


class _Stopped(BaseException):
    """Ends a run after another run has failed."""


class _Turns:
    """Threads that run in turn, one at a time; `hand_over` starts the next thread."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._turn = 0
        self._changed = threading.Condition()
        self._own = threading.local()
        self._running = set(range(count))
        self._failure: BaseException | None = None

    def run(self, functions: Iterable[Callable[[], Any]]) -> None:
        """Run the functions to their ends; raises the first failure, after all have ended."""
        threads = [
            threading.Thread(target=self._thread, args=(number, function), daemon=True)
            for number, function in enumerate(functions)
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as failure:  # the user's interrupt
            self._stop(failure)
            raise
        if self._failure is not None:
            raise self._failure

    def hand_over(self) -> None:
        """Let the other threads come to this place, then continue."""
        with self._changed:
            self._next()
            self._wait()

    def _thread(self, number: int, function: Callable[[], Any]) -> None:
        self._own.number = number
        try:
            with self._changed:
                self._wait()
            with torch.no_grad():  # holds for a single thread
                function()
        except _Stopped:
            pass
        except BaseException as failure:
            self._stop(failure)
        finally:
            with self._changed:
                self._running.discard(number)
                self._next()

    def _next(self) -> None:
        if self._running:
            after = [(number - self._own.number - 1) % self._count for number in self._running]
            self._turn = (self._own.number + 1 + min(after)) % self._count
        self._changed.notify_all()

    def _wait(self) -> None:
        self._changed.wait_for(lambda: self._failure is not None or self._turn == self._own.number)
        if self._failure is not None:
            raise _Stopped

    def _stop(self, failure: BaseException) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()
