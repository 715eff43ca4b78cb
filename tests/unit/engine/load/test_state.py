"""Mutable buffers: of one method, and of several that the exporter made share them.

The files in tests/data/state come from ExecuTorch's exporter, the expected outputs from its
runtime. All but `mixed` are three methods over two buffers of two elements, `state` (5, 7) and
`calls` (0, 0):

    forward(x)  state += x, calls += 1; returns state * state
    get()       returns -state, -calls
    put(x)      state = |x|; returns state * x

The initial values are in the files that say so; without them ExecuTorch starts with zeros, but has
the eager model's values in methods that do not share.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import webpte
from support.devices.recorded import ones
from support.graphs.graphs import chain, wait
from support.write.pte_writer import MethodWriter, write_pte
from webpte import errors
from webpte.engine.gpu.device import PlanRun
from webpte.engine.gpu.simulated.device import SimulatedDevice

X = np.array([1, 2], np.float32)
CALLS: list[tuple[Any, ...]] = [
    ("get",),
    ("forward", X),
    ("get",),
    ("forward", X),
    ("put", np.array([-3, 4], np.float32)),
    ("get",),
    ("forward", X),
    ("get",),
]
PUT = [[-9, 16]]
CONSTANT = [[-5, -7], [0, 0]]
EXPECTED: dict[str, list[list[list[int]]]] = {
    "shared": [
        *([[0, 0], [0, 0]], [[1, 4]], [[-1, -2], [-1, -1]], [[4, 16]]),
        *(PUT, [[-3, -4], [-2, -2]], [[16, 36]], [[-4, -6], [-3, -3]]),
    ],
    "shared_initial": [
        *([[-5, -7], [0, 0]], [[36, 81]], [[-6, -9], [-1, -1]], [[49, 121]]),
        *(PUT, [[-3, -4], [-2, -2]], [[16, 36]], [[-4, -6], [-3, -3]]),
    ],
    "separate": [
        *(CONSTANT, [[1, 4]], CONSTANT, [[4, 16]]),
        *(PUT, CONSTANT, [[9, 36]], CONSTANT),
    ],
    "separate_initial": [
        *(CONSTANT, [[36, 81]], CONSTANT, [[49, 121]]),
        *(PUT, CONSTANT, [[64, 169]], CONSTANT),
    ],
}


@pytest.fixture
def data(root: Path) -> Path:
    return root / "tests" / "data" / "state"


@pytest.mark.parametrize("name", EXPECTED)
def test_state_is_shared_where_the_file_asks_for_it(data: Path, name: str) -> None:
    async def run() -> None:
        program = await webpte.load(data / f"{name}.pte", device="numpy")
        for round_ in range(2):
            for (method, *inputs), expected in zip(CALLS, EXPECTED[name], strict=True):
                outputs = await program.run(method, *inputs)
                assert [output.tolist() for output in outputs] == expected, (round_, method)
            await program.recover()  # starts over

    wait(run())


def test_two_instances_of_a_program_share_nothing(data: Path) -> None:
    async def run() -> None:
        first, second = [await webpte.load(data / "shared.pte", device="numpy") for _ in range(2)]
        await first.forward(X)
        state, _ = await second.run("get")
        assert state.tolist() == [0, 0]

    wait(run())


def test_a_call_that_fails_changes_no_state(data: Path) -> None:
    async def run() -> None:
        program = await webpte.load(data / "shared.pte", device="numpy")
        await program.forward(X)
        with pytest.raises(errors.InputError):
            await program.forward(np.ones(3, np.float32))
        state, calls = await program.run("get")
        assert (state.tolist(), calls.tolist()) == ([-1, -2], [-1, -1])

    wait(run())


def test_delegates_between_shared_state(data: Path) -> None:
    """add(x): y = sigmoid(cumsum(state) + relu(w x)), state = cumsum(y), returns -y;
    get(): sigmoid(w cumsum(state)). All but cumsum is in delegates, which share w.
    """
    inputs = [[1.0, -2.0, 0.5], [-1.0, 3.0, 0.25], [0.1, 0.2, 0.3]]
    added = [
        [-0.622459352016449, -0.6791787147521973, -0.43782350420951843],
        [-0.7426828145980835, -0.9610350728034973, -0.9969469904899597],
        [-0.6990299224853516, -0.9411106705665588, -0.9966554641723633],
    ]
    got = [
        [0.7606782913208008, 0.9702636003494263, 0.9970234036445618],
        [0.8309769034385681, 0.9911515116691589, 0.9996083378791809],
        [0.8229389786720276, 0.9894570708274841, 0.9994725584983826],
    ]

    async def run() -> None:
        program = await webpte.load(data / "mixed.pte", device="numpy")
        for x, y, z in zip(inputs, added, got, strict=True):
            (first,) = await program.run("add", np.array([x], np.float32))
            (second,) = await program.run("get")
            np.testing.assert_allclose(first, [y], rtol=1e-6)
            np.testing.assert_allclose(second, [z], rtol=1e-6)
        device = SimulatedDevice()
        program = await webpte.load(data / "mixed.pte", device=device)
        assert program.stats.prepack_transfers == 1, "the delegates of both methods read w"

    wait(run())


def test_calls_at_once_take_turns_with_state() -> None:
    """state += 1 + relu(x), where the relu comes back some time later."""

    class Slow(SimulatedDevice):
        def run(self, run: PlanRun) -> Any:
            running = super().run(run)

            async def later() -> bytes:
                await asyncio.sleep(0)
                return await running

            return later()

    m = MethodWriter.of(chain(1))
    state = m.tensor((4,), data=np.zeros(4, np.float32), mutable=True)
    one, a, b = m.tensor((4,), data=ones(4)), m.tensor((4,)), m.tensor((4,))
    m.kernel("aten::add.out", state, m.output(0), 1, a, a)
    m.kernel("aten::add.out", a, one, 1, b, b)
    m.kernel("aten::copy_", state, b, False, state)
    m.output_values[:] = [b]

    async def run() -> None:
        program = await webpte.load(write_pte(m), device=Slow())
        results = await asyncio.gather(*(program.forward(ones(4)) for _ in range(5)))
        assert [y.tolist() for (y,) in results] == [[n] * 4 for n in (2, 4, 6, 8, 10)]

    wait(run())
