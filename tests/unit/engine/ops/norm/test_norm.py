"""The NumPy references of the normalizations against loops and PyTorch's own answers."""

from __future__ import annotations

import numpy as np
import pytest

from support.cases.cases import write_arg
from support.cases.norm.norm_cases import BATCH, GROUP, LAYER, RMS, own_batch_norm
from support.cases.row_cases import normal
from support.graphs.graphs import build_graph, make_planner, read_graph, run_once, wait
from support.write.pte_writer import GraphWriter
from webpte.engine.ops.core.records import Dispatch
from webpte.errors import WebpteError


def graph_of(op: str, outs: tuple[tuple[int, ...], ...], *args: object) -> GraphWriter:
    """Tuples among the arguments are the shapes of inputs."""
    g = GraphWriter()
    ids = [g.tensor(a) if isinstance(a, tuple) else write_arg(g, a) for a in args]  # type: ignore[arg-type]
    tensors = [g.tensor(shape) for shape in outs]
    g.op(op, *ids, tensors[0] if op == RMS else g.value_list(tensors))
    g.inputs(*(i for i, a in zip(ids, args, strict=True) if isinstance(a, tuple)))
    g.outputs(tensors[0])
    return g


ROOTS = (np.arange(24.0) ** 1.5).astype(np.float32)

# As PyTorch 2.13 gives them.
LAYER_TORCH = [0.0, -0.16811655, -0.29209846, -0.35241935, -0.33453378, -0.22624934, -0.01684788,
               0.30335021, 0.74324071, 1.31110072, 2.01470208, 2.86139441]  # fmt: skip
GROUP_TORCH = [-1.19779027, -0.94298571, -0.47709417, 1.25242579, 2.68129206, 4.30202246,
               3.40354323, 2.89059305, 2.33956265, 3.12353921, 3.43364310, 3.75966692]  # fmt: skip
BATCH_TORCH = [-0.4999994, 0, 0, 3.99991989, -0.999995, -1.99998999, 2.49999714, 2.99999642,
               23.99951935, 27.99943924, -6.99996471, -7.99995995]  # fmt: skip
RMS_TORCH = [0.46291, -0.46291, -2.7774601, 0, 0, 0]


def test_layer_norm_as_torch() -> None:
    g = graph_of(LAYER, ((2, 3, 4), (2, 1, 1), (2, 1, 1)), (2, 3, 4), [3, 4], (3, 4), None, 1e-5)
    weight = (np.arange(12) / 7).astype(np.float32).reshape(3, 4)
    (out,) = wait(run_once(g, ROOTS.reshape(2, 3, 4), weight))
    np.testing.assert_allclose(out[0].ravel(), LAYER_TORCH, rtol=1e-5, atol=1e-6)


def test_group_norm_as_torch() -> None:
    g = graph_of(GROUP, ((1, 4, 3), (1, 2), (1, 2)), (1, 4, 3), (4,), (4,), 1, 4, 3, 2, 1e-5)
    weight, bias = np.array([1, 2, -1, 0.5], np.float32), np.array([0, 1, 2, 3], np.float32)
    (out,) = wait(run_once(g, ROOTS[:12].reshape(1, 4, 3), weight, bias))
    np.testing.assert_allclose(out.ravel(), GROUP_TORCH, rtol=1e-5, atol=1e-6)


def test_batch_norm_as_torch() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    statistics = np.array([[1, 2, -1], [1, 2, 3], [4, 0.25, 1]], np.float32)
    g = graph_of(BATCH, (x.shape, (0,), (0,)), x.shape, (3,), None, (3,), (3,), 0.1, 1e-5)
    (out,) = wait(run_once(g, x, *statistics))
    np.testing.assert_allclose(out.ravel(), BATCH_TORCH, rtol=1e-5, atol=1e-6)


def test_rms_norm_as_torch() -> None:
    x = np.array([[1, -2, 3], [0, 0, 0]], np.float32)
    weight = np.array([1, 0.5, -2], np.float32)
    (out,) = wait(run_once(graph_of(RMS, ((2, 3),), (2, 3), (3,), 1e-6), x, weight))
    np.testing.assert_allclose(out.ravel(), RMS_TORCH, rtol=1e-5, atol=1e-6)


ROW, PAIR, NONE = ((2, 6), (2, 1), (2, 1)), ((2, 4), (0,), (0,)), (None, None)


@pytest.mark.parametrize(
    ("op", "outs", "args", "message"),
    [
        (
            LAYER,
            ROW,
            ((2, 6), [5], *NONE, 1e-5),
            r"\[2, 6\] does not end with normalized_shape \[5\]",
        ),
        (LAYER, ROW, ((2, 6), [], *NONE, 1e-5), r"normalized_shape \[\]"),
        (LAYER, ((6,), (1,), (1,)), ((6,), [2, 6], *NONE, 1e-5), r"normalized_shape \[2, 6\]"),
        (LAYER, ROW, ((2, 6), [6], (5,), None, 1e-5), r"weight \[5\] should be \[6\]"),
        (LAYER, ROW, ((2, 6), [6], None, (7,), 1e-5), r"bias \[7\] should be \[6\]"),
        (
            GROUP,
            ((2, 6, 3), (2, 4), (2, 4)),
            ((2, 6, 3), *NONE, 2, 6, 3, 4, 1e-5),
            "into 4 groups",
        ),
        (
            GROUP,
            ((2, 6, 3), (2, 1), (2, 1)),
            ((2, 6, 3), *NONE, 2, 6, 3, 0, 1e-5),
            "into 0 groups",
        ),
        (GROUP, ((6,), (1, 1), (1, 1)), ((6,), *NONE, 1, 6, 1, 1, 1e-5), "into 1 groups"),
        (
            GROUP,
            ((2, 6), (2, 3), (2, 3)),
            ((2, 6), (3,), None, 2, 6, 1, 3, 1e-5),
            r"weight \[3\] should be \[6\]",
        ),
        (BATCH, ((4,), (0,), (0,)), ((4,), *NONE, (4,), (4,), 0.1, 1e-5), "has no dim of channels"),
        (BATCH, PAIR, ((2, 4), *NONE, (3,), (4,), 0.1, 1e-5), r"mean \[3\] should be \[4\]"),
        (BATCH, ((2, 4), (4,), (4,)), ((2, 4), *NONE, (4,), (4,), 0.1, 1e-5), "saved statistics"),
        (RMS, ((2, 6),), ((2, 6), (5,), 1e-5), r"shapes \[2, 6\] and \[5\] do not broadcast"),
        (RMS, ((),), ((), (1,), 1e-5), "has no last dim"),
    ],
)
def test_wrong_arguments(
    op: str, outs: tuple[tuple[int, ...], ...], args: tuple[object, ...], message: str
) -> None:
    inputs = [np.zeros(a, np.float32) for a in args if isinstance(a, tuple)]
    with pytest.raises(WebpteError, match=rf"op 0 \({op}\): .*{message}"):
        wait(run_once(graph_of(op, outs, *args), *inputs))


def lowered(g: GraphWriter) -> Dispatch:
    planner, _ = make_planner(build_graph(g))
    planner.lower_all()
    (dispatch,) = planner.dispatches()
    return dispatch


@pytest.mark.parametrize(
    ("rows", "width", "item", "lanes", "workgroups"),
    [
        (1, 2048, "vec4f", 256, 1),
        (2048, 2048, "vec4f", 256, 2048),
        (1, 896, "vec4f", 256, 1),
        (1024, 64, "vec4f", 16, 64),
        (1, 257, "f32", 256, 1),
        (3, 9, "f32", 16, 1),
    ],
)
def test_threads(rows: int, width: int, item: str, lanes: int, workgroups: int) -> None:
    """A change of the number of rows needs no other pipeline: decoding must not compile."""
    dispatch = lowered(graph_of(RMS, ((rows, width),), (rows, width), (width,), 1e-5))
    assert dict(dispatch.types)["ITEM"] == item
    assert dict(dispatch.overrides)["LANES"] == lanes
    assert dispatch.grid == (workgroups, 1, 1)


def test_channels_that_are_not_whole_quads() -> None:
    """A quad must not reach over the end of a channel, even where the row is whole quads."""
    for shape, item in (((1, 4, 3), "f32"), ((1, 3, 4), "vec4f")):
        g = graph_of(GROUP, (shape, (1, 1), (1, 1)), shape, None, None, *shape, 1, 1e-5)
        assert dict(lowered(g).types)["ITEM"] == item


def test_large_offsets_keep_the_variance() -> None:
    x = (normal((1, 64)) + 1e4).astype(np.float32)
    g = graph_of(LAYER, (x.shape, (1, 1), (1, 1)), x.shape, [64], *NONE, 1e-5)
    (out,) = wait(run_once(g, x))
    assert abs(out.std() - 1) < 1e-3


def test_statistics_of_several_images_are_the_hosts() -> None:
    case = own_batch_norm(normal((2, 3, 5)))
    planner, _ = make_planner(read_graph(case.program()))
    planner.lower_all()
    assert any(step.host for step in planner.calls)
    wait(case.run_reference())
