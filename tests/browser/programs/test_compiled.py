"""Compiled programs in Chromium: the same bytes as through Python, on the same GPU."""

from __future__ import annotations

import asyncio
import json
import shutil
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Request, Route

from support.compiling.cases import (
    compile_cases,
    compile_program,
    differences,
    large,
    run_by_python,
    run_compiled,
)
from support.harness import extent
from support.write import pack_suite
from webpte.compiling.device_test import self_test
from webpte.engine.gpu.recording.device import EVERY_GPU
from webpte_host.base.layout import ROOT
from webpte_host.harness.browser import Harness
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

SUITES = sorted((ROOT / "tests" / "suites").glob("*.zip"))
MODELS = "models"
EVERY, EVERY_MODEL = 24, 6


class Place(NamedTuple):
    harness: Harness
    site: Site
    suites: Path
    out: Path


@pytest.fixture(scope="module")
def folders(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """The unpacked suites, and a folder for compiled programs, both served."""
    suites, out = (tmp_path_factory.mktemp(name) for name in ("suites", "compiled"))
    for path in SUITES:
        with zipfile.ZipFile(path) as archive:
            archive.extractall(suites / path.stem)
    with site.mounted(Mount("/suites/", suites), Mount("/compiled/", out)):
        yield suites, out


@pytest.fixture
def place(harness: Harness, site: Site, folders: tuple[Path, Path]) -> Place:
    return Place(harness, site, *folders)


def sampled(path: Path) -> list[tuple[str, dict[str, Any]]]:
    every = 1 if extent.everything() else EVERY_MODEL if path.stem == MODELS else EVERY
    return [(path.stem, entry) for entry in pack_suite.read_entries(path)[::every]]


@pytest.mark.parametrize("path", SUITES, ids=lambda path: path.stem)
def test_suites_have_the_same_bytes(place: Place, path: Path) -> None:
    compiled, _ = compile_cases(sampled(path), place.suites, place.out, "/suites/")
    expected = run_by_python(place.harness, compiled)
    found = run_compiled(place.harness, f"{place.site.url}compiled/", compiled)
    apart = {
        case.name: why
        for case, mine, theirs in zip(compiled, found, expected, strict=True)
        if (why := differences(mine, theirs))
    }
    assert apart == {}


# Language models

GENERATED = """
async ([url, prompt, count, sampling]) => {
    const { open } = await import(url);
    const program = await open();
    const answer = async (options) => {
        const found = [];
        const tokens = program.generate(prompt, { maxNewTokens: count, ...options });
        for await (const token of tokens) found.push(token);
        return found;
    };
    const greedy = await answer({});
    const sampled = await answer({ ...sampling, seed: 11 });
    const stopped = [];
    for await (const token of program.generate(prompt, {})) {
        if (stopped.push(token) === 5) break;
    }
    const again = await answer({});
    program.close();
    return { greedy, sampled, stopped, again };
}
"""

OF_CLASSES = """
async ([url, files]) => {
    const { open } = await import(url);
    const answers = [];
    for (const file of files) {
        const program = await open({ descriptions: [{ file }] });
        const found = [];
        for await (const token of program.generate([7], { maxNewTokens: 4 })) found.push(token);
        program.close();
        answers.push(found);
    }
    return answers;
}
"""

BY_PYTHON = """
import webpte
from webpte.engine.call.options import DeveloperOptions

options = DeveloperOptions(phone=True, tuned=False)
async with await webpte.llm.load(url, options=options) as program:
    async def answer(**how):
        return [token async for token in webpte.llm.generate(program, prompt, count, **how)]
    return {"greedy": await answer(), "sampled": await answer(**sampling, seed=11)}
"""


def test_a_language_model_generates_the_same_tokens(place: Place) -> None:
    program = ROOT / "tests" / "data" / "llm" / "llama_tiny_q4.pte"
    (place.suites / program.name).write_bytes(program.read_bytes())
    compile_program(program, place.out / "llama")
    prompt, count = list(range(7, 7 + 21)), 30
    url = f"{place.site.url}compiled/llama/index.js"
    given = {"temperature": 0.9, "topK": 40, "topP": 0.95}
    found = place.harness.page.evaluate(GENERATED, [url, prompt, count, given])
    expected = place.harness.python(
        BY_PYTHON,
        url=f"/suites/{program.name}",
        prompt=prompt,
        count=count,
        sampling={"temperature": 0.9, "top_k": 40, "top_p": 0.95},
    )
    assert found["greedy"] == expected["greedy"]
    assert found["sampled"] == expected["sampled"] != found["greedy"]
    assert len(found["greedy"]) == count
    assert found["stopped"] == found["greedy"][:5]
    assert found["again"] == found["greedy"]


@pytest.mark.thorough  # the kernels of GPUs take long on a CPU
def test_a_computers_gpu_gives_the_same_tokens(place: Place) -> None:
    compile_program(ROOT / "tests/data/llm/llama_tiny_q4.pte", place.out / "classes")
    url, files = f"{place.site.url}compiled/classes/index.js", ["desktop.json", "software.json"]
    on_gpus, on_cpus = place.harness.page.evaluate(OF_CLASSES, [url, files])
    assert on_gpus == on_cpus
    assert len(on_gpus) == 4


# The runtime in the browser

ERRORS = """
async ([url, other]) => {
    const { open } = await import(url);
    const said = async (work) => {
        try { return await work(); } catch (error) { return `${error.name}: ${error.message}`; }
    };
    const program = await open();
    const x = new Float32Array(784);
    const values = (list) => [...list[0].data];
    const found = {};
    found.first = values(await program.forward(x));
    const run = async (i) => values(await program.forward(x.map(() => i / 4)));
    found.together = await Promise.all([1, 2, 3].map(run));
    found.apart = [];
    for (const i of [1, 2, 3]) found.apart.push(await run(i));
    found.shape = await said(() => program.forward({ data: new Float32Array(4), shape: [2, 2] }));
    found.count = await said(() => program.forward());
    found.method = await said(() => program.run("backward"));
    program.device.destroy();
    found.lost = await said(() => program.forward(x));
    await program.recover();
    found.recovered = values(await program.forward(x));
    const second = await open();
    found.shared = second.device === program.device;
    program.close();
    found.closed = await said(() => program.forward(x));
    found.other = values(await second.forward(x));
    const adapter = await navigator.gpu.requestAdapter();
    const device = await adapter.requestDevice();
    const given = await open({ device });
    found.given = [given.device === device, values(await given.forward(x))];
    const stop = new AbortController();
    stop.abort();
    found.aborted = await said(() => open({ signal: stop.signal }));
    found.missing = await said(() => import(other).then((module) => module.open()));
    return found;
}
"""


def test_the_runtime_in_a_page(place: Place) -> None:
    compile_program(ROOT / "web" / "samples" / "digits.pte", place.out / "digits")
    compile_program(ROOT / "web" / "samples" / "digits.pte", place.out / "broken")
    (place.out / "broken" / "digits.pte").write_bytes(b"short")
    url, broken = (f"{place.site.url}compiled/{name}/index.js" for name in ("digits", "broken"))
    found = place.harness.page.evaluate(ERRORS, [url, broken])
    first = found.pop("first")
    assert abs(sum(first) - 1) < 1e-5
    assert found.pop("together") == found.pop("apart")
    assert found.pop("recovered") == found.pop("other") == first
    assert found.pop("given") == [True, first]
    assert found.pop("shared") is True
    assert found.pop("lost").startswith("DeviceLostError: ")
    assert found == {
        "shape": "ResizeError: method forward was not compiled for inputs of the shapes [2, 2]; "
        "there are [1, 1, 28, 28]",
        "count": "InputError: method forward takes 1 inputs, but 0 were given",
        "method": "InputError: digits.pte has no method backward; it has forward",
        "closed": "ClosedError: digits.pte was closed",
        "aborted": "AbortError: signal is aborted without reason",
        "missing": "SourceError: digits.pte has 5 bytes, not 73640: it is of another program",
    }


ONCE = """
async (url) => {
    const program = await (await import(url)).open();
    const [scores] = await program.forward(new Float32Array(784).map((_, i) => i % 5));
    program.close();
    return [...scores.data];
}
"""
IN_RANGES = """
async ([url, small]) => {
    const said = (work) => work.then((one) => one, (error) => `${error.name}: ${error.message}`);
    const answer = async (at) => {
        const program = await (await import(at)).open();
        const [scores] = await program.forward(new Float32Array(784).map((_, i) => i % 5));
        program.close();
        return [...scores.data];
    };
    return [await said(answer(url)), await answer(small)];
}
"""


def test_large_files_are_read_in_ranges(place: Place) -> None:
    for name in ("ranges", "whole", "short"):
        compile_program(ROOT / "web" / "samples" / "digits.pte", place.out / name)
    large(place.out / "ranges")
    whole = (large(place.out / "short") / "digits.pte").read_bytes()
    (place.out / "short" / "digits.pte").write_bytes(whole[:70_000])
    asked: list[str | None] = []

    def note(request: Request) -> None:
        if request.url.endswith("/ranges/digits.pte"):
            asked.append(request.headers.get("range"))

    page = place.harness.page
    page.on("request", note)
    ranges, short, plain = (
        f"{place.site.url}compiled/{name}/index.js" for name in ("ranges", "short", "whole")
    )
    found, expected = page.evaluate(IN_RANGES, [ranges, plain])
    error, _ = page.evaluate(IN_RANGES, [short, plain])
    page.remove_listener("request", note)
    assert found == expected
    assert len(asked) > 1
    assert all(one and one.startswith("bytes=") for one in asked)
    told = "SourceError: digits.pte has 70000 bytes, not 73640: it is of another program"
    assert error == told


KEPT = """
async () => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("webpte-compiled");
    for (;;) {
        for await (const name of folder.keys()) if (name.endsWith(".json")) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}
"""


def test_large_files_are_kept_for_the_next_visit(place: Place) -> None:
    compile_program(ROOT / "web" / "samples" / "digits.pte", place.out / "kept")
    program = large(place.out / "kept") / "digits.pte"
    page, url = place.harness.page, f"{place.site.url}compiled/kept/index.js"
    forget = "async () => (await navigator.storage.getDirectory()).removeEntry('webpte-compiled', "
    page.evaluate(f"{forget}{{ recursive: true }}).catch(() => null)")
    asked: list[Request] = []

    def note(request: Request) -> None:
        if request.url.endswith("/kept/digits.pte"):
            asked.append(request)

    def visit() -> tuple[list[float], list[bool]]:
        asked.clear()
        found, _ = page.evaluate(IN_RANGES, [url, url])
        return found, ["if-none-match" in one.headers for one in asked]

    page.on("request", note)
    asked.clear()
    first = page.evaluate(ONCE, url)
    assert len(asked) == 2  # the beginning, and the rest
    page.evaluate(KEPT)
    again, conditional = visit()
    assert again == first
    assert conditional == [True, True]  # two openings, each with a question and no bytes
    data = bytearray(program.read_bytes())
    data[-4096:] = bytes(4096)
    program.write_bytes(data)
    changed = page.evaluate(ONCE, url)
    page.remove_listener("request", note)
    assert changed != first


def with_self_test(folder: Path, edit: str) -> Path:
    """Let the first description of a folder need packed dot products, and their self-test.

    edit  what stands in place of the bytes that are expected; "": the right bytes
    """
    info = replace(EVERY_GPU, packed_dot=True)
    made = asyncio.run(self_test(info, {"features": [], "limits": {}, "packedDot": True}))
    assert made is not None
    name, table, shaders = made
    if edit:
        table["expected"][-1][2] = edit
    (folder / name).write_text(json.dumps(table), "utf-8")
    for shader, text in shaders.items():
        (folder / shader).write_text(text, "utf-8")
    rows = [{"file": "first.json", "test": name, **table["device"]}, {"file": "program.json"}]
    for other in ("first.json", "program.json"):
        shutil.copy(folder / "software.json", folder / other)  # which compiles quickly on a CPU
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    return folder


SELF_TESTED = """
async (url) => {
    const { open } = await import(`${url}index.js`);
    const descriptions = await (await fetch(`${url}rows.json`)).json();
    const program = await open({ descriptions });
    const [scores] = await program.forward(new Float32Array(784).map((_, i) => i % 5));
    program.close();
    return [...scores.data];
}
"""


@pytest.mark.parametrize(
    ("edit", "taken"), [("", ["first"]), ("AAAAAAAAAAA=", ["first", "program"])]
)
def test_a_faulty_gpu_gets_the_next_description(place: Place, edit: str, taken: list[str]) -> None:
    folder = place.out / f"tested{len(edit)}"
    compile_program(ROOT / "web" / "samples" / "digits.pte", folder)
    with ThreadPoolExecutor(1) as threads:  # Playwright's event loop runs here
        threads.submit(with_self_test, folder, edit).result()
    asked: list[str] = []

    def note(request: Request) -> None:
        if request.url.endswith(("/first.json", "/program.json")):
            asked.append(Path(request.url).stem)

    page = place.harness.page
    page.on("request", note)
    found = page.evaluate(SELF_TESTED, f"{place.site.url}compiled/{folder.name}/")
    page.remove_listener("request", note)
    assert asked == taken
    assert abs(sum(found) - 1) < 1e-5


def test_what_failed_to_open_fetches_no_more(place: Place) -> None:
    compile_program(ROOT / "web" / "samples" / "digits.pte", place.out / "slow")
    (place.out / "slow" / "digits.pte").write_bytes(b"short")
    page = place.harness.page
    held: list[Route] = []
    ended: list[Request] = []

    def hold(route: Route) -> None:  # without an answer
        held.append(route)

    def end(request: Request) -> None:
        ended.append(request)

    page.route("**/slow/wgsl/*", hold)
    page.on("requestfailed", end)
    opens = "async (url) => (await import(url)).open().catch((error) => error.message)"
    assert "not 73640" in page.evaluate(opens, f"{place.site.url}compiled/slow/index.js")
    page.evaluate("0")  # what came before it is here then
    page.remove_listener("requestfailed", end)
    page.unroute("**/slow/wgsl/*")
    assert len(held) == len(ended) == 3
