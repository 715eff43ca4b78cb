"""Values that a method passes to a delegate although the graph has no input for them."""

from __future__ import annotations

import numpy as np
import pytest

import webpte
from support.devices.recorded import DEVICES, device_of, ones
from support.graphs.graphs import chain, wait
from support.write.pte_writer import GraphWriter, MethodWriter, write_pte
from webpte import errors


@pytest.mark.parametrize("unused", ["a number", "another size", "another type", "the same"])
def test_a_value_that_no_op_of_the_graph_uses(unused: str) -> None:
    """The exporter passes it all the same, but does not list it in the graph."""
    m = MethodWriter()
    x, y = m.tensor((4,)), m.tensor((4,))
    m.inputs(x)
    values = {
        "a number": lambda: m.value(7),
        "another size": lambda: m.tensor((5,)),
        "another type": lambda: m.tensor((4,), "int64"),
        "the same": lambda: x,
    }
    m.delegate(chain(1), [values[unused](), x, y])
    m.outputs(y)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device="numpy")
        (result,) = await program.forward(-ones(4))
        assert result.tolist() == [0, 0, 0, 0]

    wait(run())


def test_a_tensor_that_no_op_of_the_graph_uses() -> None:
    m = MethodWriter()
    x, unused, y = m.tensor((4,)), m.tensor((5,)), m.tensor((4,))
    m.inputs(unused, x)
    m.delegate(chain(1), [unused, x, y])
    m.outputs(y)

    async def run() -> None:
        program = await webpte.load(write_pte(m), device="numpy")
        (result,) = await program.forward(ones(5), -ones(4))
        assert result.tolist() == [0, 0, 0, 0]

    wait(run())


def test_which_of_two_alike_a_graph_takes_is_no_matter_for_a_guess() -> None:
    m = MethodWriter()
    x, unused, y = m.tensor((4,)), m.tensor((4,)), m.tensor((4,))
    m.inputs(unused, x)
    m.delegate(chain(1), [unused, x, y])
    m.outputs(y)
    with pytest.raises(errors.GraphError, match=r"1 inputs and 1 outputs, but .* 3 values"):
        wait(webpte.load(write_pte(m), device="numpy"))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("in_place", [True, False])
def test_the_source_of_a_copy_is_the_second_of_two_alike(device: str, in_place: bool) -> None:
    """The exporter drops the copies of in-place operators, and then what these overwrote.

    The delegate of `elu_(x)` gets x and elu(x), that of `y = elu(x); y.copy_(x)` gets y and x.
    """
    m, g = MethodWriter(), GraphWriter()
    x, elu, out = (m.tensor((5,)) for _ in range(3))
    m.inputs(x)
    m.kernel("aten::elu.out", x, 1.0, 1, 1, elu, elu)
    source = g.tensor((5,))
    g.inputs(source)
    g.outputs(source)
    m.delegate(g, [*((x, elu) if in_place else (elu, x)), out])
    if in_place:
        m.kernel("aten::copy_", x, out, False, x)
    m.outputs(*((x, out) if in_place else (out,)))
    given = np.linspace(-2, 2, 5, dtype=np.float32)
    expected = np.where(given < 0, np.expm1(given), given) if in_place else given

    async def run() -> None:
        async with await webpte.load(write_pte(m), device=device_of(device)) as program:
            for result in await program.forward(given):
                np.testing.assert_allclose(result, expected, rtol=1e-6)

    wait(run())
