"""The examples for JavaScript: a page, Vite with TypeScript, React, an extension; another site.

Each starts Python once more, and one fetches tools from npm: they run with `--all`.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from support.compiling.cases import compile_program
from support.harness import extent, limits
from support.harness.task_cases import models_folder
from support.npm.host import POLICY
from support.page.static_site import static_host
from webpte_host.base.layout import ROOT, STATE, WEB
from webpte_host.base.process import npm_command, run_tool
from webpte_host.setup import chromium
from webpte_host.setup.runtime import ensure_runtime, npm_version
from webpte_host.site.build_npm import write_package

pytestmark = pytest.mark.skipif(not extent.everything(), reason="runs with --all")

EXAMPLES = ROOT / "docs" / "examples"
SAMPLES = WEB / "samples"
TYPES = [ROOT / "tests" / "support" / "npm" / name for name in ("types.ts", "compiled_types.ts")]
CHAT = {
    "model.pte": "stories.pte",
    "tokenizer.json": "stories.tokenizer.json",
    "tokenizer_config.json": "stories.tokenizer_config.json",
}


def example(name: str, folder: Path) -> Path:
    """Copy an example; beside it are the package and Pyodide, as the document says."""
    shutil.copytree(EXAMPLES / name, folder)
    write_package(folder / "webpte", ensure_runtime())
    (folder / "runtime").mkdir()
    shutil.copytree(ensure_runtime() / "pyodide", folder / "runtime" / "pyodide")
    return folder


def expect_status(page: Page, text: str) -> None:
    expect(page.locator("#status")).to_contain_text(text, timeout=limits.START_MS)


def test_a_page_without_a_bundler(page: Page, tmp_path: Path) -> None:
    folder = example("javascript", tmp_path / "page")
    shutil.copy(SAMPLES / "digits.pte", folder / "model.pte")
    with static_host(folder, POLICY) as host:
        page.goto(host.url)
        expect_status(page, "Ready: 784 random values in.")
        page.click("#run")
        expect(page.locator("#output")).not_to_be_empty()
        assert len((page.text_content("#output") or "").split()) == 10


def test_vite_and_typescript(page: Page, tmp_path: Path) -> None:
    folder = tmp_path / "vite"
    shutil.copytree(EXAMPLES / "vite", folder)
    for types in TYPES:  # the build checks them, too
        shutil.copy(types, folder)
    _install(folder)
    (folder / "public" / "model").mkdir(parents=True)
    for name, source in CHAT.items():
        shutil.copy(SAMPLES / source, folder / "public" / "model" / name)
    run_tool([*npm_command(), "run", "build"], "npm run build", cwd=folder)
    with static_host(folder / "dist", POLICY) as host:
        page.goto(host.url)
        expect_status(page, "Ready.")
        page.click("form button")
        expect_status(page, "Answered.")
        assert page.text_content("#answer") == "A cow says moo!"


def test_react_and_a_camera(profile: BrowserContext, tmp_path: Path) -> None:
    folder = tmp_path / "react"
    shutil.copytree(EXAMPLES / "react", folder)
    _install(folder)
    run_tool([*npm_command(), "run", "build"], "npm run build", cwd=folder)
    out, task = folder / "dist" / "model", "image-classification"
    compile_program(models_folder() / "shapes", out, task=task)
    profile.grant_permissions(["camera"])
    with static_host(folder / "dist") as host:
        page = profile.new_page()
        page.goto(host.url)
        shown = page.locator("figcaption p")
        expect(shown.first).to_have_text(re.compile(r"^\w+: \d+ %$"), timeout=limits.START_MS)
        assert page.locator("[role=alert]").count() == 0
        page.close()


def _install(folder: Path) -> None:
    """Install the example's packages; packages of npm are fetched once."""
    described = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    packages = {**described["dependencies"], **described["devDependencies"]}
    wanted = [f"{name}@{version}" for name, version in packages.items() if name != "webpte"]
    wanted.append(f"pyodide@{npm_version('pyodide')}")
    tools = STATE / folder.name
    if not (tools / "node_modules" / "vite").is_dir():
        tools.mkdir(parents=True, exist_ok=True)
        command = [*npm_command(), "install", "--prefix", str(tools), "--ignore-scripts", *wanted]
        run_tool(command, "npm install", cwd=tools)
    modules, commands = folder / "node_modules", folder / "node_modules" / ".bin"
    commands.mkdir(parents=True)
    for installed in (tools / "node_modules").iterdir():
        if installed.name != ".bin":
            (modules / installed.name).symlink_to(installed)
    write_package(modules / "webpte", ensure_runtime())
    script = modules / "webpte" / "bin" / "webpte.mjs"
    script.chmod(0o755)
    (commands / "webpte").symlink_to(script)
    for name in ("vite", "tsc"):
        if (tool := tools / "node_modules" / ".bin" / name).exists():
            (commands / name).symlink_to(tool.resolve())


def test_an_extension(browser: Browser, tmp_path: Path) -> None:
    folder = example("extension", tmp_path / "extension")
    shutil.copytree(models_folder() / "feelings", folder / "model")
    flags = (f"--load-extension={folder}", f"--disable-extensions-except={folder}")
    context = browser.browser_type.launch_persistent_context(
        tmp_path / "profile", **chromium.launch_options(None, *flags), timeout=limits.START_MS
    )
    try:
        context.set_default_timeout(limits.EXPECT_MS)
        workers = context.service_workers or [context.wait_for_event("serviceworker")]
        page = context.new_page()
        page.goto(workers[0].url.replace("background.js", "page.html"))
        expect_status(page, "Ready.")
        page.click("button")
        expect_status(page, "glad: 0.80")
    finally:
        context.close()


def test_the_package_on_another_site(page: Page, tmp_path: Path) -> None:
    """A worker's script has to be of the page's own origin; the package sees to that."""
    folder = example("javascript", tmp_path / "other")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    shutil.copy(SAMPLES / "sigmoid.pte", tmp_path / "own")
    allowed = {"Access-Control-Allow-Origin": "*"}
    with static_host(folder, allowed) as other, static_host(tmp_path / "own") as own:
        page.goto(own.url)
        found = page.evaluate(
            """async (other) => {
                const webpte = await import(`${other}webpte/index.js`);
                webpte.configure({ indexURL: `${other}runtime/pyodide` });
                const program = await webpte.load("sigmoid.pte");
                const [y] = await program.forward(new Float32Array(37 * 41));
                return y.data[0];
            }""",
            other.url,
        )
    assert found == 0.5
