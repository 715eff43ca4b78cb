"""Times the preparation of pictures for models, in NumPy and on the GPU; no model is needed.

    page.html?script=picture_page.py                        in a page: see page_site.py
    PYTHONPATH=pysrc:tests python -m bench.picture_page     on this machine's GPU

The page has `js.query` with perhaps `height` and `width` of the picture (768 and 1024), and `runs`
(5). The value of the last line is a JSON text. Times are medians after a first run; those of the
GPU end when the last part has been read back. "new size" is the first picture of a size, for which
weights are computed and a graph is built; its kernels are compiled already.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table
from webpte.engine.gpu.devices import shared_device
from webpte.errors import InputError
from webpte.tasks.vision.scaling.gpu_scaler import GpuScaler
from webpte.tasks.vision.scaling.resample import filter_weights
from webpte.tasks.vision.scaling.steps import PictureSteps, prepare_on_host
from webpte.tasks.vision.tiles import pictures_of

Figures = dict[str, Any]
SMOLVLM = {
    "image_processor_type": "SmolVLMImageProcessor",
    "size": {"longest_edge": 2048},
    "max_image_size": {"longest_edge": 512},
}
CLIP = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 224},
    "crop_size": {"height": 224, "width": 224},
    "image_mean": [0.48, 0.46, 0.41],
    "image_std": [0.27, 0.26, 0.28],
}
VIT = {"image_processor_type": "ViTImageProcessor", "size": {"height": 224, "width": 224}}
MODELS: dict[str, dict[str, Any]] = {
    "SmolVLM, whole": {**SMOLVLM, "do_image_splitting": False},
    "SmolVLM, tiles": SMOLVLM,
    "CLIP": CLIP,
    "ViT": {**VIT, "image_mean": [0.5] * 3, "image_std": [0.5] * 3},
}


def steps_of(settings: dict[str, Any], height: int, width: int) -> PictureSteps:
    table = Table(settings, "preprocessor_config.json", InputError)
    return pictures_of(table).layout(height, width).steps


async def timed(runs: int, call: Callable[[], Awaitable[Any]]) -> float:
    times = []
    for _ in range(runs):
        started = perf_counter()
        await call()
        times.append(perf_counter() - started)
    return round(1000 * median(times), 2)


async def measure(asked: Mapping[str, str], say: Callable[[str], Any], device: str) -> str:
    """Return the times of each model's pictures, and whether both ways give the same bits."""
    opened = await shared_device(device)
    scaler = GpuScaler(opened)
    found: Figures = {"device": opened.info.description or opened.info.architecture}
    found["software"] = opened.info.software
    height, width, runs = (
        int(asked.get(name, default))
        for name, default in (("height", 768), ("width", 1024), ("runs", 5))
    )
    random = np.random.default_rng(0)

    async def in_numpy(steps: PictureSteps, pixels: np.ndarray) -> list[np.ndarray]:
        return prepare_on_host(steps, pixels)

    async def on_gpu(steps: PictureSteps, pixels: np.ndarray) -> list[Any]:
        made = await scaler.run(steps, pixels, "float32")
        await made[-1].numpy()
        return made

    for name, settings in MODELS.items():
        rows: Figures = {}
        steps = steps_of(settings, height, width)
        pixels = random.integers(0, 256, (height, width, 3), np.uint8)
        for way, call in (("NumPy", in_numpy), ("GPU", on_gpu)):
            await call(steps, pixels)
            rows[f"{way} ms"] = await timed(runs, partial(call, steps, pixels))
            new = []
            for run in range(runs):
                other = height, width + 2 * (1 + run)
                shown = random.integers(0, 256, (*other, 3), np.uint8)
                filter_weights.cache_clear()
                started = perf_counter()
                await call(steps_of(settings, *other), shown)
                new.append(perf_counter() - started)
            rows[f"{way}, new size, ms"] = round(1000 * median(new), 2)
        made = [await one.numpy() for one in await scaler.run(steps, pixels, "float32")]
        wanted = prepare_on_host(steps, pixels)
        rows["products"] = steps.work
        rows["same bits"] = all(map(np.array_equal, made, wanted))
        found[name] = rows
        say(json.dumps({name: rows}))
    scaler.close()
    return json.dumps(found)


def start() -> asyncio.Future[str]:
    """Measure what the page's query asks for."""
    import js  # of Pyodide

    asked = {str(key): str(value) for key, value in js.query.to_py().items()}
    return asyncio.ensure_future(measure(asked, js.say, "webgpu"))


if __name__ == "__main__" and "pyodide" not in sys.modules:
    print(asyncio.run(measure({}, lambda text: None, "native")))
start() if "pyodide" in sys.modules else None  # the page awaits the script's value
