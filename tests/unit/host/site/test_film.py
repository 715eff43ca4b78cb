"""The film of `serve.py pictures --film`: its file, and its steps on a page that plays along."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image

from webpte_host.base.errors import HostError
from webpte_host.site import film
from webpte_host.site.film import Frame


def picture(seed: int, *, noisy: bool = False) -> bytes:
    pixels = np.full((48, 64, 3), 17 * seed % 256, np.uint8)
    if noisy:
        pixels = np.random.default_rng(seed).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_a_film_shows_each_picture_as_long_as_it_should() -> None:
    data = film.animation([Frame(picture(n), 100 * (n + 1)) for n in range(4)])
    found: Any = Image.open(io.BytesIO(data))
    assert (found.format, found.n_frames, found.info["loop"]) == ("WEBP", 4, 0)
    shown = []
    for number in range(found.n_frames):
        found.seek(number)
        found.load()
        shown.append(found.info["duration"])
        assert abs(int(np.asarray(found.convert("RGB"))[0, 0, 0]) - 17 * number) <= 3
    assert shown == [100, 200, 300, 400]


def test_a_film_has_a_limit() -> None:
    frames = [Frame(picture(n, noisy=True), 100) for n in range(6)]
    large = film.animation(frames)
    assert len(film.animation(frames, len(large) - 1)) < len(large)
    with pytest.raises(HostError, match="more than 100"):
        film.animation(frames, 100)


class Page:
    """A page that does everything at once, and notes each call."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def picture(self, *, whole: bool = False) -> bytes:
        self.told.append("picture")
        return picture(len(self.told))

    def evaluate(self, function: str, argument: Any = None) -> Any:
        return True

    def __getattr__(self, name: str) -> Any:
        def tell(*given: Any) -> bool:
            self.told.append(" ".join(map(str, (name, *given))))
            return True

        return tell


def test_half_a_minute_has_all_steps() -> None:
    page: Any = Page()
    frames = film.record(page)
    assert 25_000 <= sum(frame.ms for frame in frames) <= 35_000
    clicked = [one for one in page.told if one.startswith("click #tab")]
    assert clicked == ["click #tab-graph", "click #tab-compare", "click #tab-profile"]
    assert any(one.startswith("draw canvas.pad") for one in page.told)
