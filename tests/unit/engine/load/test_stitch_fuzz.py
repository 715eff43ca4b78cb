"""Random methods: folding, offloading, moving and stitching change no result."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.stitching import LOGCUMSUMEXP, counting, neg, plus
from support.harness import extent
from support.harness.samples import Dims, numbers, relu
from support.write.pte_writer import Host, MethodWriter, write_pte
from webpte.engine.gpu.simulated.device import SimulatedDevice

DIMS: Dims = (4,)


class Writer:
    """Writes one method, step by step. `live` are the values that a step can read."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.m = MethodWriter()
        self.places: dict[int, int] = {}  # value index to where it is in planned memory
        self.free_places: list[int] = []
        self.m.inputs(self.made(), self.made())
        self.state = self.m.tensor(DIMS, data=np.zeros(4, np.float32), mutable=True)
        weight = self.m.tensor(DIMS, data=numbers(4))
        self.live = [*self.m.input_values, weight, self.state]
        self.outputs: list[Host] = []

    def made(self) -> Host:
        """A new value, now and then where a value was that is not needed any more."""
        end = self.m.planned_bytes
        if self.free_places_left() and self.random.random() < 0.5:
            self.m.planned_bytes = self.free_places.pop()
        place = self.m.planned_bytes
        value = self.m.tensor(DIMS)
        self.m.planned_bytes = max(end, self.m.planned_bytes)
        self.places[value.index] = place
        return value

    def free_places_left(self) -> bool:
        return bool(self.free_places)

    def any(self) -> Host:
        return self.random.choice(self.live)

    def computed(self) -> list[Host]:
        fixed = {value.index for value in self.m.input_values}
        return [v for v in self.live if v.index in self.places and v.index not in fixed]

    def target(self) -> Host:
        """Return a value for a kernel to write: a new value, or a value that was written before."""
        old = self.computed()
        if old and self.random.random() < 0.15:
            return self.random.choice(old)
        return self.keep(self.made())

    def keep(self, value: Host) -> Host:
        self.live.append(value)
        return value

    # Steps

    def delegate(self) -> None:
        make: Callable[..., Host] = self.random.choice(
            [neg, counting, lambda m, v: relu(m, v, DIMS)]
        )
        self._placed(lambda: make(self.m, self.any()))

    def delegate_of_two(self) -> None:
        self._placed(lambda: plus(self.m, self.any(), self.any()))

    def _placed(self, make: Callable[[], Host]) -> None:
        place = self.m.planned_bytes
        value = self.keep(make())
        self.places[value.index] = place

    def on_the_host(self) -> None:
        source, out = self.any(), self.target()
        if source != out:
            self.m.kernel(LOGCUMSUMEXP, source, 0, out, out)
        else:
            self.m.kernel(LOGCUMSUMEXP, self.m.input(0), 0, out, out)

    def offloadable(self) -> None:
        x, y, out = self.any(), self.any(), self.target()
        if out in (x, y):
            x = y = self.m.input(1)
        name = self.random.choice(["aten::add.out", "aten::sub.out"])
        self.m.kernel(name, x, y, 1, out, out)

    def constant(self) -> None:
        out = self.keep(self.made())
        self.m.kernel("aten::arange.start_out", 0, 4, 1, out, out)

    def change_state(self) -> None:
        self._write_back(self.state)

    def change_input(self) -> None:
        self._write_back(self.random.choice(self.m.input_values))

    def _write_back(self, target: Host) -> None:
        self.m.kernel("aten::copy_", target, self.any(), False, target)

    def forget(self) -> None:
        if old := self.computed():
            value = self.random.choice(old)
            self.live.remove(value)
            self.free_places.append(self.places[value.index])
            if self.random.random() < 0.5:
                self.m.free(value)
                self.free_places.pop()  # a view of freed memory is an error

    def view(self) -> None:
        """Add a view of a place in another shape, read by a delegate or by the host."""
        if not (old := self.computed()):
            return
        end, source = self.m.planned_bytes, self.random.choice(old)
        self.m.planned_bytes = self.places[source.index]
        view, self.m.planned_bytes = self.m.tensor((2, 2)), end
        if self.random.random() < 0.5:
            self.outputs.append(neg(self.m, view, (2, 2)))
        else:
            out = self.m.tensor((2, 2))
            self.m.kernel(LOGCUMSUMEXP, view, 0, out, out)
            self.outputs.append(out)

    def write(self) -> bytes:
        steps = [self.delegate, self.delegate, self.delegate_of_two, self.on_the_host]
        steps += [self.offloadable, self.offloadable, self.constant, self.change_state]
        steps += [self.forget, self.view, self.change_input]
        for _ in range(self.random.randrange(4, 16)):
            self.random.choice(steps)()
        count = self.random.randrange(1, 4)
        self.m.outputs(*self.outputs, *(self.any() for _ in range(count)))
        return write_pte(self.m)


@pytest.mark.parametrize("start", range(0, extent.count(60, 200), 20))
def test_random_methods(start: int) -> None:
    async def run(seed: int) -> tuple[int, int]:
        data, device = Writer(seed).write(), SimulatedDevice()
        program = await webpte.load(data, device=device)
        expected = await webpte.load(data, device="numpy")
        rng = np.random.default_rng(seed)
        for _ in range(3):
            inputs = [rng.standard_normal(4).astype(np.float32) for _ in range(2)]
            outputs = await program.forward(*inputs)
            for got, want in zip(outputs, await expected.forward(*inputs), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-4, err_msg=f"{seed=}")
        delegates = len(program._contents.methods["forward"].graphs)
        return program.stats.submissions, delegates

    counts = [wait(run(seed)) for seed in range(start, start + 20)]
    submitted, delegates = (sum(column) for column in zip(*counts, strict=True))
    assert 0 < submitted < delegates * 2, "with copies of state"
