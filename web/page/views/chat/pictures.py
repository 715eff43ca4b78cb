"""Pictures of a conversation: taken from files, and kept small for the next visit."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from page.browser import Browser
from page.shared.inputs.photos import Photo, whole_of
from page.shared.npy import Array
from page.shared.outputs.pictures import data_url
from webpte.errors import InputError

LARGEST = 2048  # pixels a side that a model is given
MOST = 16  # pictures of a message
KEPT_SIDE = 448  # pixels a side of a copy that is kept
KEPT_BYTES = 60_000  # of a picture that is kept unchanged
_JPEG, _PNG = "data:image/jpeg;base64,", "data:image/png;base64,"
SMALLER = "a smaller copy, kept by the browser"
NOT_KEPT = "picture not kept"
NOT_SENT = "picture not sent: the model takes none now"


@dataclass(frozen=True, eq=False)
class ChatPicture:
    """A picture of a message.

    name    of its file
    height, width   as it was added
    pixels  (height, width, 3) uint8; None if they were not kept
    small   a copy as a data URL, which is shown and kept; "" if there is none
    is_copy whether the pixels belong to a smaller copy
    sent    whether the model sees it
    """

    name: str
    height: int
    width: int
    pixels: Array | None
    small: str
    is_copy: bool = False
    sent: bool = True

    @property
    def title(self) -> str:
        return f"{self.name}, {self.width} × {self.height} pixels"

    @property
    def note(self) -> str:
        """The difference to the picture that was added, in words; "" if there is none."""
        if self.pixels is None:
            return NOT_KEPT
        if not self.sent:
            return NOT_SENT
        return SMALLER if self.is_copy else ""


class Attachments:
    """The pictures that go with the next message."""

    def __init__(self) -> None:
        self.pictures: list[ChatPicture] = []
        self.loading = 0  # files

    async def add(self, browser: Browser, files: Sequence[Any]) -> None:
        """Add pictures from files; also if an error is raised for some of them."""
        if len(self.pictures) + self.loading + len(files) > MOST:
            raise InputError(f"a message takes up to {MOST} pictures: send these first")
        self.loading += len(files)
        failed: list[InputError] = []
        for file in files:
            try:
                self.pictures.append(await _take(browser, file))
            except InputError as error:
                failed.append(error)
            finally:
                self.loading -= 1
        if failed:
            raise InputError(". ".join(map(str, failed)))

    def remove(self, pictures: Collection[ChatPicture]) -> None:
        self.pictures = [one for one in self.pictures if one not in pictures]


@dataclass
class Edit:
    """The message that is edited: its line, and the pictures that stay with it."""

    line: int
    pictures: list[ChatPicture]


async def _take(browser: Browser, file: Any) -> ChatPicture:
    name = browser.source(file).name
    try:
        photo = await browser.decode(file, LARGEST)
    except ValueError as error:
        raise InputError(
            f"{name} is not a picture that this browser can read: choose a PNG, JPEG or WebP file"
        ) from error
    try:
        height, width = _within(photo, LARGEST)
        pixels = photo.part(whole_of(photo), height, width)
        return ChatPicture(name, height, width, pixels, await _small(browser, photo, pixels))
    finally:
        photo.close()


def _within(photo: Photo, side: int) -> tuple[int, int]:
    """Return the picture's height and width, scaled so that neither is over `side`."""
    scale = min(1.0, side / max(photo.height, photo.width))
    return max(1, round(photo.height * scale)), max(1, round(photo.width * scale))


async def _small(browser: Browser, photo: Photo, pixels: Array) -> str:
    """Return a picture as a data URL: itself if it is small, else a smaller copy."""
    if max(pixels.shape[:2]) <= KEPT_SIDE:
        png = await browser.png(pixels)
        if len(png) <= KEPT_BYTES:
            return data_url(png)
    jpeg = await browser.jpeg(photo.part(whole_of(photo), *_within(photo, KEPT_SIDE)))
    return _JPEG + base64.b64encode(jpeg).decode("ascii")


# ---- as the browser keeps them


def picture_json(picture: ChatPicture, with_copy: bool) -> dict[str, Any]:
    """Return a picture as the store keeps it."""
    told = {"name": picture.name, "height": picture.height, "width": picture.width}
    return {**told, "small": picture.small} if with_copy and picture.small else told


class KeptPictures:
    """The pixels of pictures that the browser has kept, by their data URLs."""

    def __init__(self) -> None:
        self._pixels: dict[str, Array] = {}

    async def load(self, browser: Browser, saved: Any) -> None:
        """Decode the pictures of a saved conversation; damaged ones are left out."""
        for raw in _raw_pictures(saved):
            small = raw.get("small")
            if not isinstance(small, str) or small in self._pixels:
                continue
            head, _, data = small.partition(",")
            if f"{head}," not in (_JPEG, _PNG):
                continue  # written by another hand
            try:
                photo = await browser.decode(base64.b64decode(data, validate=True), KEPT_SIDE)
            except (ValueError, binascii.Error):
                continue
            self._pixels[small] = photo.part(whole_of(photo), photo.height, photo.width)
            photo.close()

    def restored(self, raw: Mapping[str, Any]) -> ChatPicture:
        """Return a picture that was kept. Raises KeyError or ValueError for other data."""
        name, height, width = str(raw["name"]), int(raw["height"]), int(raw["width"])
        small = raw.get("small")
        pixels = self._pixels.get(small) if isinstance(small, str) else None
        if pixels is None or not isinstance(small, str):
            return ChatPicture(name, height, width, None, "")
        return ChatPicture(name, height, width, pixels, small, not small.startswith(_PNG))


def _raw_pictures(saved: Any) -> Iterable[Mapping[str, Any]]:
    """Yield the pictures of a saved conversation, which may be damaged or of another page."""
    messages = saved.get("messages") if isinstance(saved, Mapping) else None
    for message in messages if isinstance(messages, list) else ():
        pictures = message.get("pictures") if isinstance(message, Mapping) else None
        for raw in pictures if isinstance(pictures, list) else ():
            if isinstance(raw, Mapping):
                yield raw
