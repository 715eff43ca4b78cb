"""Errors of planning, before it and during it: messages name op, value and shape."""

from __future__ import annotations

import numpy as np
import pytest

from support.graphs.graphs import (
    build_graph,
    make_delegate,
    make_planner,
    run_once,
    temporary_op,
    wait,
)
from support.write.pte_writer import GraphWriter
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.planner import Planner
from webpte.engine.rewrite.validate import check_defined, resolve_ops, unsupported_ops
from webpte.engine.run.request import RunRequest
from webpte.errors import GraphError, ResizeError, UnsupportedOpError, WebpteError

RELU, ADD = "aten.relu.default", "aten.add.Tensor"


def lowered(g: GraphWriter) -> tuple[Planner, LiveState]:
    planner, live = make_planner(build_graph(g))
    planner.lower_all()
    return planner, live


# Live shapes


def growing() -> tuple[GraphWriter, dict[str, int]]:
    """x as n rows, for which the file declares no more than 6; and their relu."""
    g = GraphWriter()
    x, n = g.tensor((1, 3)), g.symint(6)
    sizes = g.value_list([n, g.int(-1)])
    v = g.op("aten.expand_copy.default", x, sizes, g.null(), g.tensor((6, 3)))
    out = g.op(RELU, v, g.tensor((6, 3)))
    g.inputs(x, n)
    g.outputs(out)
    return g, {"x": x, "n": n, "v": v, "out": out}


def test_an_output_past_its_maximum_is_named_with_its_op() -> None:
    """Memory beyond the maximum is not allocated: other values are there."""
    g, ids = growing()
    planner, live = lowered(g)
    live.set_symint(ids["n"], 4)
    planner.propagate_resize()
    assert live.cur_dims(ids["out"]) == (4, 3)
    live.set_symint(ids["n"], 12)
    with pytest.raises(ResizeError) as caught:
        planner.propagate_resize()
    assert str(caught.value) == (
        f"op 0 (aten.expand_copy.default): tensor value {ids['v']}: [12, 3] does not fit into "
        "its maximum [6, 3]: 36 elements, with memory for 18"
    )


def test_an_output_past_its_maximum_on_both_ways_to_run() -> None:
    message = r"op 0 \(aten.expand_copy.default\): tensor value \d+: \[12, 3\] does not fit"
    x = np.arange(3, dtype=np.float32).reshape(1, 3)

    async def run() -> None:
        delegate, device = await make_delegate(growing()[0])
        with pytest.raises(ResizeError, match=message):
            await delegate.run(RunRequest([x, 12]))
        assert "run" not in [name for name, _ in device.log]
        (result,) = await delegate.run(RunRequest([x, 3]))
        assert result.shape == (3, 3)

    wait(run())
    with pytest.raises(ResizeError, match=message):
        wait(run_once(growing()[0], x, 12))


def test_an_output_that_is_declared_too_small_does_not_load() -> None:
    g = GraphWriter()
    x = g.tensor((4,))
    out = g.op(RELU, x, g.tensor((3,)))
    g.inputs(x)
    g.outputs(out)
    message = rf"op 0 \(aten.relu.default\): tensor value {out}: \[4\] does not fit into .* \[3\]"
    with pytest.raises(ResizeError, match=message):
        wait(make_delegate(g))


def test_shapes_that_do_not_fit_together_any_more_are_named_with_their_op() -> None:
    """Two tensors that broadcast at their largest, and of which only one shrinks."""
    g = GraphWriter()
    x, y = g.tensor((4,)), g.tensor((4,))
    a = g.op("aten.unsqueeze_copy.default", x, g.int(0), g.tensor((1, 4)))
    out = g.op(ADD, a, y, g.int(1), g.tensor((1, 4)))
    g.inputs(x, y)
    g.outputs(out)
    planner, live = lowered(g)
    live.set_cur_dims(x, (3,))
    with pytest.raises(GraphError, match=r"op 1 \(aten.add.Tensor\): shapes \[1, 3\] and \[4\]"):
        planner.propagate_resize()


# Checks while lowering


def test_a_declared_shape_that_is_not_the_computed_one() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    y = g.op("aten.view_copy.default", x, g.int_list([6]), g.tensor((7,)))
    g.inputs(x)
    g.outputs(y)
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(
        GraphError, match=rf"op 0 .* returns \[6\], but the file declares \[7\] for value {y}"
    ):
        planner.lower_all()


def test_an_output_that_is_no_tensor() -> None:
    g = GraphWriter()
    x = g.tensor((2, 3))
    n = g.int(3)
    g.op(RELU, x, n)
    g.inputs(x)
    g.outputs(x)
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError, match=rf"op 0 \(aten.relu.default\).*value {n} is an int"):
        planner.lower_all()


def test_errors_name_the_op_once() -> None:
    g = GraphWriter()
    x, y = g.tensor((2,)), g.tensor((3,))
    out = g.op(ADD, x, y, g.int(1), g.tensor((3,)))
    g.inputs(x, y)
    g.outputs(out)
    planner, _ = make_planner(build_graph(g))
    with pytest.raises(GraphError) as caught:
        planner.lower_all()
    assert (
        str(caught.value) == "op 0 (aten.add.Tensor): shapes [2] and [3] do not broadcast together"
    )


# Before anything is planned


def test_unsupported_ops_are_counted() -> None:
    g = GraphWriter()
    x = g.tensor((2,))
    for name in ("aten.nope.default", RELU, "aten.nope.default", "et.no"):
        g.op(name, x, g.tensor((2,)))
    g.op("et_vk.prepack.default", x, x)
    graph = build_graph(g)
    assert unsupported_ops(graph) == {"aten.nope.default": 2, "et.no": 1}
    with pytest.raises(UnsupportedOpError, match="2 operators not supported"):
        resolve_ops(graph)


def test_reading_what_nothing_wrote() -> None:
    g = GraphWriter()
    x, y = g.tensor((2,)), g.tensor((2,))
    g.op(RELU, y, g.tensor((2,)))
    g.inputs(x)
    with pytest.raises(
        GraphError, match=rf"op 0 \(aten.relu.default\): reads tensor value {y} before"
    ):
        check_defined(build_graph(g))


def test_reading_a_list_member_that_nothing_wrote() -> None:
    with temporary_op("test.cat.default", "tensors: tensors -> tensor"):
        g = GraphWriter()
        x, y = g.tensor((2,)), g.tensor((2,))
        g.op("test.cat.default", g.value_list([x, y]), g.tensor((4,)))
        g.inputs(x)
        with pytest.raises(GraphError, match=f"reads tensor value {y} before"):
            check_defined(build_graph(g))


def test_an_output_that_nothing_writes() -> None:
    g = GraphWriter()
    x, y = g.tensor((2,)), g.tensor((2,))
    g.inputs(x)
    g.outputs(y)
    with pytest.raises(GraphError, match=f"output value {y} is never written"):
        check_defined(build_graph(g))


@pytest.mark.parametrize("name", [RELU, "aten.clone.default", "et_vk.prepack.default", "add"])
def test_a_call_without_any_argument(name: str) -> None:
    """A broken file gets an error of ours, not an IndexError."""
    g = GraphWriter()
    x = g.tensor((2,))
    g.op(name)
    g.inputs(x)
    g.outputs(x)
    with pytest.raises(GraphError, match=rf"op 0 \({name}\)"):
        wait(make_delegate(g))
    with pytest.raises(WebpteError, match=rf"op 0 \({name}\)"):
        wait(run_once(g, np.zeros(2, np.float32)))
