"""The package for npm on a host whose pages forbid eval, with programs and Pyodide beside it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page

from support.harness import limits
from support.harness.task_cases import models_folder
from support.page.static_site import StaticHost, static_host
from webpte_host.base.layout import WEB
from webpte_host.harness.browser import PageLog
from webpte_host.setup.runtime import ensure_runtime
from webpte_host.site.build_npm import write_package

# As strict as an extension's; nothing but WebAssembly is evaluated.
POLICY = {"Content-Security-Policy": "script-src 'self' 'wasm-unsafe-eval'"}
SCRIPTS = [Path(__file__).with_name(name) for name in ("page.js", "prompt.js")]
PAGE = """<!doctype html><title>webpte from npm</title><link rel="icon" href="data:,">
<script type="module" src="{}"></script>"""


@contextmanager
def npm_host(folder: Path) -> Iterator[StaticHost]:
    """A host of pages with the scenarios of page.js, and at prompt.html of prompt.js."""
    runtime = ensure_runtime()
    write_package(folder / "package", runtime)
    for name, target in {
        "pyodide": runtime / "pyodide",
        "samples": WEB / "samples",
        "tasks": models_folder(),
        # as docs/use/javascript.md calls them
        "model.pte": WEB / "samples" / "digits.pte",
        "models/feelings": models_folder() / "feelings",
        "models/minilm": models_folder() / "vectors",
        "models/sam": models_folder() / "prompts",
        "models/chat/model.pte": WEB / "samples" / "stories.pte",
        "models/chat/tokenizer.json": WEB / "samples" / "stories.tokenizer.json",
        "models/chat/tokenizer_config.json": WEB / "samples" / "stories.tokenizer_config.json",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    for script, page in zip(SCRIPTS, ("index.html", "prompt.html"), strict=True):
        (folder / page).write_text(PAGE.format(script.name), encoding="utf-8")
        shutil.copy(script, folder)
    with static_host(folder, POLICY) as host:
        yield host


@contextmanager
def scenario_page(browser: Browser, folder: Path, name: str = "") -> Iterator[Page]:
    """A page of the host that has imported the package; an error in its console fails."""
    with npm_host(folder) as host:
        page = browser.new_page()
        page.set_default_timeout(limits.START_MS)
        log = PageLog(page)
        page.goto(host.url + name)
        page.wait_for_function("globalThis.scenarios")
        yield page
        assert log.errors == []
        page.close()


def run(page: Page, scenario: str, given: Any = None) -> Any:
    return page.evaluate("([name, given]) => scenarios[name](given)", [scenario, given])
