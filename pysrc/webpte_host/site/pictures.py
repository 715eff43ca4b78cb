"""`serve.py pictures`: takes pictures of every view of the page, in each browser, size and theme.

Look at the pictures after a change of the page; `--readme` takes the README's pictures again. The
page is the real page; a single visit takes all pictures of a browser, so that Python starts once.
`--film` records a moving picture of half a minute.
"""

from __future__ import annotations

import argparse
import base64
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from webpte_host.base.descriptions import described
from webpte_host.base.layout import ROOT, STATE, WEB
from webpte_host.setup import chromium, environment, firefox
from webpte_host.site import film, icons
from webpte_host.site.scenes import SCENES, STARTED, Scene

if TYPE_CHECKING:
    from webpte_host.harness.driven_page import DrivenPage

WIDTHS = (390, 1280, 1440)
THEMES = ("light", "dark")
BROWSERS = ("chromium", "firefox")
_HEIGHT = 900
_README_WIDTH = 1280
_SETTLE_SECONDS = 0.8  # for the last drawing of the views' scripts
_TALLEST = 4000  # pixels of a picture of a whole page

_SET_THEME = """(theme) => {
    const select = document.querySelector("#theme");
    select.value = theme;
    select.dispatchEvent(new Event("change", { bubbles: true }));
}"""
_TIDY = "() => { document.activeElement?.blur(); scrollTo(0, 0); }"
_PAGE_HEIGHT = "() => document.documentElement.scrollHeight"

# Decodes a PNG to pixels, in the browser.
_DECODE = """async (png) => {
    const bytes = Uint8Array.from(atob(png), (letter) => letter.charCodeAt(0));
    const bitmap = await createImageBitmap(new Blob([bytes]));
    const context = new OffscreenCanvas(bitmap.width, bitmap.height).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    const { data, width, height } = context.getImageData(0, 0, bitmap.width, bitmap.height);
    const parts = [];
    for (let at = 0; at < data.length; at += 32768) {
        parts.push(String.fromCharCode(...data.subarray(at, at + 32768)));
    }
    return { width, height, data: btoa(parts.join("")) };
}"""


def main(arguments: list[str]) -> int:
    names = ", ".join(scene.name for scene in SCENES)
    parser = argparse.ArgumentParser(prog="serve.py pictures", description=described(__doc__))
    parser.add_argument(
        "out",
        type=Path,
        nargs="?",
        metavar="DIR",
        help="folder to write to (.webpte/reports/pictures; docs for the README's)",
    )
    parser.add_argument(
        "--only", action="append", metavar="GLOB", help=f"scenes, of {names}; may be repeated"
    )
    parser.add_argument("--browser", choices=BROWSERS, help="only this one")
    parser.add_argument("--readme", action="store_true", help="the README's pictures")
    parser.add_argument(
        "--film", action="store_true", help="half a minute of the page, as DIR/film.webp"
    )
    parser.add_argument("--icons", action="store_true", help="the page's icons, and no scenes")
    parser.add_argument("--adapter", choices=chromium.ADAPTERS, help="as for verify")
    options = parser.parse_args(arguments)
    scenes = chosen_scenes(options.only, readme=options.readme)
    if not scenes:
        parser.error(f"no scene is called {' or '.join(options.only)}")
    if not environment.inside():
        return environment.rerun_inside(["pictures", *arguments], with_browser=True)
    if options.icons:
        icons.take(options.out or WEB)
        return 0
    if options.readme:
        _take_readme(scenes, options.out or ROOT / "docs", options.adapter)
        return 0
    out = options.out or STATE / "reports" / "pictures"
    if options.film:
        _take_film(out, options.adapter)
        return 0
    return _take_all(scenes, out, options.browser, options.adapter)


def chosen_scenes(globs: Sequence[str] | None, *, readme: bool) -> list[Scene]:
    """Return the scenes whose name matches any of `globs`; all scenes without globs."""
    return [
        scene
        for scene in SCENES
        if any(fnmatch(scene.name, glob) for glob in globs or ["*"])
        and (scene.readme_height or not readme)
    ]


def _take_all(scenes: list[Scene], out: Path, browser: str | None, adapter: str | None) -> int:
    """Take pictures of all scenes; report a scene that cannot be shown, and continue."""
    from playwright.sync_api import Error as PlaywrightError  # only the environment has it

    out.mkdir(parents=True, exist_ok=True)
    taken: list[str] = []
    failed: list[str] = []
    for name in BROWSERS if browser is None else (browser,):
        if name == "firefox" and browser is None and firefox.find() is None:
            print("Firefox: not installed, so left out")
            continue
        with _visit(name, adapter) as page:
            for scene in scenes:
                page.set_viewport(_README_WIDTH, _HEIGHT)
                try:
                    scene.show(page)
                except PlaywrightError as error:
                    failed.append(scene.name)
                    print(f"{scene.name} in {name} failed: {error.message}", file=sys.stderr)
                taken += _take_scene(page, scene, out, name)
    _write_index(out)
    print(f"{len(taken)} pictures; open {out / 'index.html'} to see them")
    return 1 if failed else 0


def _take_scene(page: DrivenPage, scene: Scene, out: Path, browser: str) -> Iterator[str]:
    """Take a scene at every width in every theme; yields the names of the files."""
    for theme in THEMES:
        page.evaluate(_SET_THEME, theme)
        for width in WIDTHS:
            page.set_viewport(width, _HEIGHT)
            page.evaluate(_TIDY)
            time.sleep(_SETTLE_SECONDS)
            whole = page.evaluate(_PAGE_HEIGHT) <= _TALLEST
            name = f"{scene.name}-{width}-{theme}-{browser}.png"
            (out / name).write_bytes(page.picture(whole=whole))
            print(name, flush=True)
            yield name
    page.evaluate(_SET_THEME, "")


def _write_index(out: Path) -> None:
    """Write a page with all pictures of the folder."""
    rows = "\n".join(
        f'<figure><a href="{path.name}"><img src="{path.name}" width="480" loading="lazy" '
        f'alt=""></a><figcaption>{path.stem}</figcaption></figure>'
        for path in sorted(out.glob("*.png"))
    )
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Pictures</title>'
    style = "<style>body{display:flex;flex-wrap:wrap;font:13px sans-serif}</style>"
    (out / "index.html").write_text(f"{head}{style}\n{rows}\n</html>\n", encoding="utf-8")


def _take_readme(scenes: list[Scene], out: Path, adapter: str | None) -> None:
    import numpy as np  # only the environment has it

    from webpte_host.site import small_png

    with _visit("chromium", adapter) as page:
        page.evaluate(_SET_THEME, "light")
        for scene in scenes:
            page.set_viewport(_README_WIDTH, scene.readme_height)
            scene.show(page)
            page.evaluate(_TIDY)
            time.sleep(_SETTLE_SECONDS)
            found = page.evaluate(_DECODE, base64.b64encode(page.picture()).decode())
            raw = np.frombuffer(base64.b64decode(found["data"]), np.uint8)
            png = small_png.encode(raw.reshape(found["height"], found["width"], 4)[:, :, :3])
            path = out / f"{scene.name}.png"
            path.write_bytes(png)
            print(f"{path}: {len(png) / 1000:.0f} KB", flush=True)


def _take_film(out: Path, adapter: str | None) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with _visit("chromium", adapter) as page:
        page.evaluate(_SET_THEME, "light")
        frames = film.record(page)
    data = film.animation(frames)
    path = out / "film.webp"
    path.write_bytes(data)
    seconds = sum(frame.ms for frame in frames) / 1000
    print(f"{path}: {len(frames)} pictures, {seconds:.0f} s, {len(data) / 1000:.0f} KB")


@contextmanager
def _visit(browser: str, adapter: str | None) -> Iterator[DrivenPage]:
    """Open the page in a browser and wait until it has started."""
    from webpte_host.harness.browser import open_browser
    from webpte_host.harness.driven_page import ChromiumPage
    from webpte_host.harness.firefox import open_firefox
    from webpte_host.serving.server import Site
    from webpte_host.site.scene_models import scene_models

    def start(page: DrivenPage, site: Site) -> DrivenPage:
        page.set_viewport(_README_WIDTH, _HEIGHT)
        page.goto(site.url)
        page.wait_for(STARTED)
        return page

    with scene_models() as mounts, Site(mounts=mounts) as site:
        if browser == "firefox":
            with open_firefox() as one:
                yield start(one.new_page(), site)
        else:
            with open_browser(adapter) as other:
                yield start(ChromiumPage(other.new_page(reduced_motion="reduce")), site)
