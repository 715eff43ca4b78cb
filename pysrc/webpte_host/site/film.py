"""`serve.py pictures --film`: half a minute of the page as a moving picture, for the README.

A program is opened and answers a drawing; then its graph, its first call that differs from NumPy
(with no tolerance at all, so that rounding counts), and a traced run. The pictures are of the real
page; how long each stays is written here, so a slow machine makes the same film.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from webpte_host.base.errors import HostError
from webpte_host.site import scenes

if TYPE_CHECKING:
    from webpte_host.harness.driven_page import DrivenPage

WIDTH, HEIGHT = 960, 640
MOST_BYTES = 2_000_000
_QUALITIES = (80, 65, 50, 35)  # the first whose file is small enough
_MODEL = "digits"
_STROKES = 4  # points of the drawing between two pictures
_SHOW = "(selector) => document.querySelector(selector)?.scrollIntoView({ block: 'center' })"


@dataclass(frozen=True)
class Frame:
    """A picture, as a PNG, and the milliseconds for which the film shows it."""

    png: bytes
    ms: int


class Camera:
    """Takes the frames of a film."""

    def __init__(self, page: DrivenPage) -> None:
        self._page = page
        self.frames: list[Frame] = []

    def hold(self, seconds: float) -> None:
        """Take the page as it is now, to be shown for a while."""
        self.frames.append(Frame(self._page.picture(), round(seconds * 1000)))


def record(page: DrivenPage) -> list[Frame]:
    """Play the film on a page that has started; return its frames."""
    page.set_viewport(WIDTH, HEIGHT)
    camera = Camera(page)
    camera.hold(2.5)
    scenes.open_sample(page, _MODEL)
    camera.hold(2)
    page.click("[data-act=clear-drawing]")
    page.evaluate(_SHOW, "canvas.pad")
    line = scenes.THREE
    for start in range(0, len(line) - 1, _STROKES):
        page.draw("canvas.pad", line[start : start + _STROKES + 1])
        camera.hold(0.3)
    page.wait_for("() => document.querySelector('#outputs .largest .label-name') !== null")
    scenes.wait_for_end(page, "Done")
    camera.hold(3.5)
    page.click("#tab-graph")
    scenes.see_the_graph(page)
    page.evaluate(_SHOW, "#view-graph svg")
    camera.hold(3)
    page.click("#graph-box-1")
    camera.hold(3)
    page.click("#tab-compare")
    for name in ("rtol", "atol"):
        page.fill(f"#view-compare [name={name}]", "0")
    camera.hold(1.5)
    page.click("#view-compare button.primary")
    scenes.wait_for_end(page, "Compared", "differs", "differ")
    page.evaluate(_SHOW, "#view-compare .card:nth-of-type(2)")
    camera.hold(5)
    page.click("#tab-profile")
    camera.hold(1)
    scenes.trace(page)
    page.evaluate(_SHOW, "#view-profile svg")
    camera.hold(5)
    return camera.frames


def animation(frames: Sequence[Frame], most: int = MOST_BYTES) -> bytes:
    """Return an animated WebP of at most that many bytes, which repeats. Raises HostError."""
    from PIL import Image  # only the environment has it

    pictures = [Image.open(io.BytesIO(frame.png)).convert("RGB") for frame in frames]
    for quality in _QUALITIES:
        out = io.BytesIO()
        pictures[0].save(
            out,
            "WEBP",
            save_all=True,
            append_images=pictures[1:],
            duration=[frame.ms for frame in frames],
            loop=0,
            quality=quality,
            method=4,
            minimize_size=True,
        )
        if len(data := out.getvalue()) <= most:
            return data
    raise HostError(f"the film has {len(data):,} bytes, more than {most:,}: take fewer pictures.")
