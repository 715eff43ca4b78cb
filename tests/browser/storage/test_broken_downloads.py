"""Loads over a network that breaks: they end right, and fetch nothing twice that was kept.

WEBPTE_BIG_MB is the size of the file, 12 MB by default.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext

from support.harness import extent, limits
from support.harness.breaking_site import BreakingSite, Trouble
from support.harness.shared_harness import SharedHarness
from support.page.page import python
from support.page.page_visit import FORGET
from support.write.pte_writer import GraphWriter, write_pte
from webpte_export.manifest_writer import write_manifest
from webpte_host.harness.browser import Harness
from webpte_host.serving.routing import Mount

MB = 1 << 20
SIZE = int(os.environ.get("WEBPTE_BIG_MB", "12")) * MB
WIDTH, TABLE = 1 << 12, 4 * MB  # bytes of a row, and of a constant
AT_ONCE = 1 << 10  # rows that a call looks up

# The rows of all tables, looked up on the GPU, as one hash.
COMMON = """
import hashlib, json, js
from pyodide.code import run_js
from webpte import library

segments = run_js('''async () => {
    const found = [];
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("webpte-library", { create: true });
    for await (const data of folder.values()) {
        if (data.kind !== "directory") continue;
        for await (const handle of data.values()) {
            if (isNaN(handle.name)) continue; // a file of the browser's own, while one is written
            const { size } = await handle.getFile();
            if (size) found.push([Number(handle.name), Number(handle.name) + size]);
        }
    }
    return JSON.stringify(found.sort((a, b) => a[0] - b[0]));
}''')

async def kept_ranges():
    return json.loads(await segments())

def quick(**limits):
    return webpte.Download(**{"stall": 1, **limits})

async def digest(program):
    hashes = None
    rows = program.methods["forward"].constants[0].shape[0]
    step = program.methods["forward"].inputs[0].shape[0]
    for first in range(0, rows, step):
        found = await program.forward(np.arange(first, first + step, dtype=np.int32))
        hashes = hashes or [hashlib.sha256() for _ in found]
        for one, table in zip(hashes, found):
            one.update(table.tobytes())
    return [one.hexdigest() for one in hashes]
"""


@dataclass(frozen=True)
class Big:
    """A large program, where it is served, and the hashes of its tables."""

    site: BreakingSite
    folder: Path
    size: int
    digests: list[str]

    @property
    def url(self) -> str:
        return f"{self.site.url}big/tables.pte"

    @property
    def trouble(self) -> Trouble:
        return self.site.trouble


def write_tables(path: Path) -> list[str]:
    """Write a program that looks up rows of several tables; return the hash of each."""
    g, digests = GraphWriter(), []
    random = np.random.default_rng(11)
    index = g.tensor((AT_ONCE,), "int32")
    g.inputs(index)
    found = []
    for _ in range(SIZE // TABLE):
        table = random.bytes(TABLE)
        digests.append(hashlib.sha256(table).hexdigest())
        rows = np.frombuffer(table, np.uint8).reshape(-1, WIDTH)
        constant = g.tensor(rows.shape, "uint8", constant=rows)
        picked = g.tensor((AT_ONCE, WIDTH), "uint8")
        found.append(g.op("aten.index_select.default", constant, g.int(0), index, picked))
    g.outputs(*found)
    path.write_bytes(write_pte(g))
    return digests


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    path = tmp_path_factory.mktemp("big") / "tables.pte"
    yield path.parent, write_tables(path)
    path.unlink()


@pytest.fixture(scope="module")
def breaking(folder: tuple[Path, list[str]]) -> Iterator[BreakingSite]:
    with BreakingSite([Mount("/big/", folder[0])]) as site:
        yield site


@pytest.fixture
def big(breaking: BreakingSite, folder: tuple[Path, list[str]]) -> Big:
    """A server that cuts off every tenth request; others stall, or are refused at first."""
    breaking.trouble = Trouble(faults={3: "stall", 6: "busy", 9: "cut"})
    return Big(breaking, folder[0], (folder[0] / "tables.pte").stat().st_size, folder[1])


@pytest.fixture(scope="module")
def shared(workshop: BrowserContext, breaking: BreakingSite) -> Iterator[SharedHarness]:
    shared = SharedHarness(workshop, breaking)
    yield shared
    shared.close()


@pytest.fixture
def harness(shared: SharedHarness, big: Big) -> Harness:
    """A page that has kept nothing of the site."""
    harness = shared.get()
    harness.page.evaluate(FORGET)
    return harness


def script(harness: Harness, code: str, **arguments: Any) -> Any:
    return python(harness, COMMON + code, **arguments)


LOAD = """
told = []
async with await webpte.load(
    url, keep=True, download=quick(), progress=lambda *one: told.append(one)
) as program:
    found = await digest(program)
for _ in range(1000):
    if all(not entry.missing for entry in await library.entries()):
        break
    await asyncio.sleep(0.05)
entry, = await library.entries()
return found, entry.size, entry.missing, told[-1]
"""


def restart_when(site: BreakingSite, sent: int, seconds: float) -> threading.Thread:
    """Restart a server once it has sent this many bytes."""

    def wait() -> None:
        while site.trouble.sent < sent:
            threading.Event().wait(0.01)
        site.restart(seconds)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread


def test_a_load_survives_cuts_stalls_and_a_restart(harness: Harness, big: Big) -> None:
    big.trouble.pace = 0.001
    restarting = restart_when(big.site, SIZE // 2, 2)
    found, size, missing, last = script(harness, LOAD, url=big.url)
    restarting.join()
    assert found == big.digests
    assert (size, missing) == (big.size, 0)
    assert last[1] == last[2]
    assert "restart" in big.trouble.happened
    assert any(header.get("If-Range") for header in big.trouble.headers)
    # Bytes that were on their way when a connection broke come again, at most a few MB of each.
    assert big.trouble.sent < big.size + 4 * MB * (len(big.trouble.happened) + 3)


MANIFEST = """
told = []
async with await webpte.load(
    url, keep=keep, download=quick(), progress=lambda *one: told.append(one)
) as program:
    found = await digest(program)
checks = [done for stage, done, total in told if stage == "check"]
again = []
stored = 0
if keep:
    (await webpte.load(url, keep=True, progress=lambda *one: again.append(one[0]))).close()
    (await webpte.load(other, keep=True)).close()  # its program is not on the server
    stored = sum(end - begin for begin, end in await kept_ranges() if end - begin > 10_000)
    await library.delete(program_url)
    (await webpte.load(other, keep=True)).close()
wrong = await raises(webpte.errors.DigestError, webpte.load(bad, keep=keep, download=quick()))
programs = [one for one in await library.entries() if one.name == "tables.pte"]
left = [(one.address, one.sha256, one.missing) for one in programs]
return found, checks[-1], again, wrong, left, stored
"""


@pytest.mark.parametrize("keep", extent.some([True], False))
def test_files_of_a_manifest_are_checked(harness: Harness, big: Big, keep: bool) -> None:
    big.trouble.faults = {9: "cut"}
    folder = big.folder
    path = folder / "tables.pte"
    right = write_manifest(path).rename(folder / "right.json")
    sha256 = json.loads(right.read_text())["files"][0]["sha256"]
    wrong = {"program": "tables.pte", "files": [{"name": "tables.pte", "sha256": "0" * 64}]}
    (folder / "wrong.json").write_text(json.dumps(wrong))
    (folder / "second").mkdir(exist_ok=True)
    (folder / "second" / "right.json").write_text(right.read_text())
    origin = f"{big.site.url}big/"
    given = {"url": f"{origin}right.json", "other": f"{origin}second/right.json"}
    given |= {"bad": f"{origin}wrong.json", "program_url": big.url}
    found, checked, again, message, left, stored = script(harness, MANIFEST, keep=keep, **given)
    assert found == big.digests
    assert checked == big.size
    assert "check" not in again  # it was checked when it was kept
    assert sha256 in message
    assert "0" * 64 in message
    assert left == ([[f"{origin}second/tables.pte", sha256, 0]] if keep else [])
    # The last segment can be as short as the other files of the library.
    assert big.size - 10_000 <= stored <= big.size if keep else stored == 0


INTERRUPTED = """
global loading
loading = asyncio.ensure_future(webpte.load(url, keep=True, download=quick()))
while True:
    if sum(end - begin for begin, end in await kept_ranges()) >= wanted:
        return await kept_ranges()
    if loading.done():
        return str(loading.exception())
    await asyncio.sleep(0.05)
"""


def overlaps(asked: list[tuple[int, int]], kept: list[list[int]]) -> list[Any]:
    return [
        (first, last, begin, end)
        for first, last in asked
        for begin, end in kept
        if first < end and last >= begin
    ]


def test_a_load_goes_on_after_a_reload_of_the_page(
    harness: Harness, shared: SharedHarness, big: Big
) -> None:
    big.trouble.pace = 0.02
    kept = script(harness, INTERRUPTED, url=big.url, wanted=SIZE // 4)
    harness.page.goto("about:blank")
    harness.close()
    big.trouble.pace = 0
    asked = len(big.trouble.asked)
    again = shared.get()
    listed = script(again, "return [vars(entry) for entry in await library.entries()]")
    found, size, missing, _ = script(again, LOAD, url=big.url)
    assert sum(end - begin for begin, end in kept) >= SIZE // 4
    assert [entry["address"] for entry in listed] == [big.url]
    assert 0 < listed[0]["missing"] <= big.size - sum(end - begin for begin, end in kept)
    assert found == big.digests
    assert (size, missing) == (big.size, 0)
    assert overlaps(big.trouble.asked[asked:], kept) == []


CANCEL = """
loading = asyncio.ensure_future(webpte.load(url, keep=True, download=quick(stall=6000)))
while sum(end - begin for begin, end in await kept_ranges()) < wanted:
    await asyncio.sleep(0.05)
from time import perf_counter
started = perf_counter()
loading.cancel()
await asyncio.wait([loading])
spent = perf_counter() - started
for _ in range(500):
    try:
        before = await kept_ranges()
        await asyncio.sleep(0.05)
        if before == await kept_ranges():
            break
    except Exception:
        pass
return loading.cancelled(), spent, await kept_ranges()
"""


def test_a_cancelled_load_ends_at_once_and_goes_on_later(harness: Harness, big: Big) -> None:
    big.trouble.pace = 0.02
    cancelled, spent, kept = script(harness, CANCEL, url=big.url, wanted=SIZE // 4)
    asked, big.trouble.pace = len(big.trouble.asked), 0
    found, _, missing, _ = script(harness, LOAD, url=big.url)
    assert cancelled
    assert spent < limits.SOCKET_SECONDS  # which is far below the time for a stall
    assert found == big.digests
    assert missing == 0
    assert overlaps(big.trouble.asked[asked:], kept) == []


PAUSED = """
download = quick(stall=60)
loading = asyncio.ensure_future(webpte.load(url, keep=True, download=download))
while sum(end - begin for begin, end in await kept_ranges()) < wanted:
    await asyncio.sleep(0.05)
download.pause()
before, during = None, await kept_ranges()
while before != during:  # what was on its way is on the disk some time later
    await asyncio.sleep(1.5)
    before, during = during, await kept_ranges()
done = loading.done()
download.resume()
async with await loading as program:
    found = await digest(program)
return during, done, found
"""


def test_a_paused_load_fetches_nothing_until_it_goes_on(harness: Harness, big: Big) -> None:
    big.trouble.faults, big.trouble.pace = {}, 0.02
    given = {"url": big.url, "wanted": SIZE // 8}
    before, done, found = script(harness, PAUSED, **given)
    assert not done
    assert sum(end - begin for begin, end in before) < big.size
    assert found == big.digests
    # Bytes that were on their way when the requests ended come again.
    assert big.trouble.sent < big.size + 4 * MB * 8


# A browser with Cross-Origin Storage: a file that is stored by its hash is there for all sites.
SHARED = """
shared = run_js('''() => {
    const files = new Map();
    navigator.crossOriginStorage = {
        async requestFileHandles([{ algorithm, value }], { create = false } = {}) {
            if (algorithm !== "SHA-256") throw new TypeError(algorithm);
            if (!create && !files.has(value)) throw new DOMException("", "NotFoundError");
            return [{
                getFile: async () => files.get(value),
                createWritable: async () => ({
                    write: async (blob) => files.set(value, new Blob([await blob.arrayBuffer()])),
                    close: async () => {},
                }),
            }];
        },
    };
    return () => [...files.keys()].join();
}''')()
(await webpte.load(url, keep=True, download=quick())).close()
for _ in range(100):
    if shared():
        break
    await asyncio.sleep(0.05)
given = shared()
await library.delete(program_url)
file = await library.open(program_url, sha256=given)
came = file.came
async with await webpte.load(url, keep=True) as program:
    found = await digest(program)
run_js("delete navigator.crossOriginStorage")
return given, came, found
"""


def test_files_that_sites_share_are_taken_and_given(harness: Harness, big: Big) -> None:
    big.trouble.faults = {}
    right = write_manifest(big.folder / "tables.pte").rename(big.folder / "right.json")
    sha256 = json.loads(right.read_text())["files"][0]["sha256"]
    url = f"{big.site.url}big/right.json"
    given, came, found = script(harness, SHARED, url=url, program_url=big.url)
    assert given == sha256
    assert came == "from the files that sites share"
    assert found == big.digests
    whole = [last - first for first, last in big.trouble.asked if last - first > 100_000]
    assert sum(whole) < big.size, "the second load fetched nothing of the program"
