"""`serve.py pictures --icons`: the page's icons as PNG, and the picture of links to it.

Browsers, phones and chats that take no SVG show these. They are made of `web/icon.svg` and
`web/result.svg`, in Chromium.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from webpte_host.base.layout import WEB

SIZES = (32, 180, 192, 512)
LINK_PICTURE, LINK_SIZE = "og.png", (1200, 630)
_TITLE = ("Run PyTorch models", "in your browser, on your GPU")
_LEAD = ("Any ExecuTorch .pte.", "Nothing is uploaded.")


@dataclass(frozen=True)
class Icon:
    """A file with a drawing of this size, in pixels."""

    name: str
    width: int
    height: int
    svg: str

    @property
    def page(self) -> str:
        """A document with the drawing alone."""
        style = "html,body{margin:0;background:none}svg{display:block}"
        return f'<!doctype html><html lang="en"><style>{style}</style>{self.svg}</html>'


def icons(web: Path = WEB) -> list[Icon]:
    """Return all icons, and the picture of links."""
    icon = (web / "icon.svg").read_text(encoding="utf-8")
    result = (web / "result.svg").read_text(encoding="utf-8")
    width, height = LINK_SIZE
    return [
        *(Icon(f"icon-{size}.png", size, size, _sized(icon, size, size)) for size in SIZES),
        Icon(LINK_PICTURE, width, height, _link_svg(icon, result)),
    ]


def _sized(svg: str, width: int, height: int, at: str = "") -> str:
    """Return a drawing with a size, and perhaps a place."""
    return re.sub(r"<svg ", f'<svg width="{width}" height="{height}" {at}', svg, count=1)


def _link_svg(icon: str, result: str) -> str:
    width, height = LINK_SIZE
    title = "".join(
        f'<text x="80" y="{266 + 78 * at}" font-size="62" font-weight="800">{line}</text>'
        for at, line in enumerate(_TITLE)
    )
    lead = "".join(
        f'<text x="640" y="{482 + 46 * at}" font-size="32" fill="#51605c">{line}</text>'
        for at, line in enumerate(_LEAD)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" fill="#15211f">'
        f'<rect width="{width}" height="{height}" fill="#f3f6f5"/>'
        + _sized(icon, 84, 84, 'x="80" y="80" ')
        + f'<text x="186" y="140" font-size="52" font-weight="800">webpte</text>{title}{lead}'
        + _sized(result, 491, 180, 'x="80" y="402" ')
        + "</svg>"
    )


def take(out: Path = WEB) -> None:
    """Draw all icons, in Chromium."""
    from webpte_host.harness.browser import open_browser

    with open_browser() as browser:
        for icon in icons():
            page = browser.new_page(viewport={"width": icon.width, "height": icon.height})
            page.set_content(icon.page)
            path = out / icon.name
            path.write_bytes(page.screenshot(omit_background=True))
            page.close()
            print(f"{path}: {path.stat().st_size / 1000:.0f} KB", flush=True)
