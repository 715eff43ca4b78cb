"""Small models of pictures as software-mansion publishes them: without settings and labels."""

from __future__ import annotations

import json
from functools import cache

import numpy as np

from support.graphs.fusion_graphs import ADD, VIEW, Net
from support.write.pte_writer import GraphWriter, write_pte

BOXES = "software-mansion/YOLO26-ExecuTorch"
STRETCHED = "software-mansion/rfdetr-nano-detector-ExecuTorch"
REGIONS = "software-mansion/selfie-segmentation-ExecuTorch"
SIDE = 16
# In the model's picture: the first two overlap, and the last is unlikely.
PLACES = np.array([[4, 6, 8, 10], [4, 6, 8, 9.9], [0, 5, 3, 9], [1, 1, 2, 2]], np.float32)
SCORES, CLASSES = np.array([0.9, 0.8, 0.7, 0.1], np.float32), np.array([2, 2, 16, 0], np.float32)


def _mean(g: GraphWriter, picture: int) -> int:
    over = (g.int_list([1, 2, 3]), g.bool_(False))
    return g.op("aten.mean.dim", picture, *over, g.tensor((1,)))


def _moved(g: GraphWriter, array: np.ndarray, by: int, share: float) -> int:
    """Write an array that changes by a share of a number."""
    factor = g.prepack(g.tensor((1,), constant=np.full(1, share, np.float32)))
    step = g.op("aten.mul.Tensor", by, factor, g.tensor((1,)))
    kept = g.prepack(g.tensor(array.shape, constant=array))
    return g.op(ADD, kept, step, g.int(1), g.tensor(array.shape))


def detector() -> GraphWriter:
    """Write a detector whose scores rise by a tenth of the picture's mean."""
    g = Net().g
    picture = g.tensor((1, 3, SIDE, SIDE))
    mean = _mean(g, picture)
    g.inputs(picture)
    arrays = ((PLACES, 0.0), (SCORES, 0.1), (CLASSES, 0.0))
    g.outputs(*(_moved(g, array, mean, share) for array, share in arrays))
    return g


def regions() -> GraphWriter:
    """Write a segmenter that gives the red of each pixel, less a half."""
    g = Net().g
    picture, wide = g.tensor((1, 3, SIDE, SIDE)), (1, 1, SIDE, SIDE)
    only = (g.int(1), g.int(0), g.int(1), g.int(1))
    red = g.op("aten.slice_copy.Tensor", picture, *only, g.tensor(wide))
    less = g.prepack(g.tensor((1,), constant=np.full(1, -0.5, np.float32)))
    g.inputs(picture)
    found = g.op(ADD, red, less, g.int(1), g.tensor(wide))
    g.outputs(g.op(VIEW, found, g.int_list(list(wide)), g.tensor(wide)))
    return g


def model_schema(shape: tuple[int, ...]) -> str:
    """Return the text of the method get_model_schema of a program with one picture."""
    dims = [{"kind": "constant", "value": size} for size in shape]
    given = {"kind": "Tensor", "dtype": "float32", "shape": dims}
    return json.dumps({"forward": {"inputs": [given], "outputs": [], "runtimeConstraints": []}})


@cache
def repositories() -> dict[str, dict[str, bytes]]:
    """Return the files of each repository, by its name."""
    said = {"get_model_schema": model_schema((1, 3, SIDE, SIDE))}
    found = write_pte(detector(), constant_methods=said)

    def config(*capabilities: str) -> bytes:
        return json.dumps({"capabilities": capabilities}).encode()

    return {
        BOXES: {
            "n/vulkan/yolo26n_384_vulkan_fp16.pte": found,
            "n/vulkan/config.json": config("object-detection"),
        },
        STRETCHED: {
            "vulkan/rfdetr_nano_vulkan_fp16.pte": found,
            "vulkan/config.json": config("detection"),
        },
        REGIONS: {
            "xnnpack/selfie_segmentation_xnnpack_fp32.pte": write_pte(regions()),
            "xnnpack/config.json": config("semantic-segmentation"),
        },
    }
