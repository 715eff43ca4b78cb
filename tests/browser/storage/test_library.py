"""Files that the browser keeps: fetched once, never half, there without a network, and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from support.page.kept_twice import KEPT, KEPT_TWICE
from support.page.page import python
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site

SAMPLE, WEIGHTS = "samples/sigmoid.pte", "samples/digits.pte"
# What the page's Python fetches goes through here: `seen` has [status, range, tag given].
# `js.fault` is "offline", or "newer": the server's file has become another one.
WATCH = """
import contextlib, json, js
from pyodide.code import run_js
from webpte import library

watch = run_js('''() => {
    const plain = globalThis.fetch;
    const seen = [];
    const renamed = (answer) => {
        const headers = new Headers(answer.headers);
        headers.set("ETag", '"newer"');
        return new Response(answer.body, { status: answer.status, headers });
    };
    globalThis.fetch = async (url, options) => {
        if (globalThis.fault === "offline") throw new TypeError("Failed to fetch");
        const { Range, "If-None-Match": tag } = options?.headers ?? {};
        const newer = globalThis.fault === "newer";
        const answer = newer ? renamed(await plain(url, { headers: { Range } })) : await plain(url, options);
        seen.push([answer.status, Range, tag]);
        return answer;
    };
    return {
        seen: () => JSON.stringify(seen.splice(0)),
        end() { globalThis.fetch = plain; globalThis.fault = ""; },
        async files() {
            const root = await navigator.storage.getDirectory();
            return JSON.stringify(await Array.fromAsync((await root.getDirectoryHandle("webpte-library")).keys()));
        },
        async cut() {
            const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("webpte-library");
            for await (const handle of folder.values()) {
                if (handle.kind !== "directory") continue;
                for await (const segment of handle.values()) {
                    const out = await segment.createWritable({ keepExistingData: true });
                    await out.truncate(1000);
                    await out.close();
                }
            }
        },
    };
}''')()

async def run(address, device="numpy", keep=True):
    async with await webpte.load(address, device=device, keep=keep) as program:
        x = np.full(program.methods["forward"].inputs[0].shape, 0.5, np.float32)
        (y,) = await program.forward(x)
        return [float(value) for value in y.flat[:10]]

async def kept(address):
    "Waits until a load is kept in the background."
    for _ in range(500):
        found = await library.entries()
        first = found[0] if found else None
        if first and first.address == address and not first.missing:
            if len(json.loads(await watch.files())) == 2:
                return first
        await asyncio.sleep(0.02)

try:
"""  # noqa: E501
END = """
finally:
    watch.end()
    for entry in await library.entries():
        with contextlib.suppress(webpte.errors.SourceError):  # a file that is being written
            await library.delete(entry.address)
"""


def script(harness: Harness, code: str, **arguments: Any) -> Any:
    body = "".join(f"    {line}\n" for line in code.strip("\n").split("\n"))
    return python(harness, WATCH + body + END, **arguments)


@pytest.fixture
def address(site: Site) -> str:
    return f"{site.url}{SAMPLE}"


def test_a_program_is_fetched_once_and_runs_without_a_network(
    harness: Harness, address: str
) -> None:
    seen = script(
        harness,
        """
first = await run(address)
entry = await kept(address)
watch.seen()
second = await run(address)
asked = json.loads(watch.seen())
js.fault = "offline"
third = await run(address)
came = (await library.open(address)).came
lost = await raises(webpte.errors.SourceError, webpte.load(address + "?other", keep=True))
await library.delete(address)
gone = await raises(webpte.errors.SourceError, webpte.load(address, keep=True))
return [first, second, third], asked, vars(entry), came, lost, gone
""",
        address=address,
    )
    values, asked, entry, came, lost, gone = seen
    assert values == [[pytest.approx(0.6224593)] * 10] * 3
    assert asked == [[304, "bytes=0-65535", entry["etag"]]]
    assert (entry["name"], entry["size"]) == ("sigmoid.pte", 1376)
    assert entry["used"] >= entry["kept"] > 1.7e9
    assert "cannot be asked" in came
    assert "Failed to fetch" in lost
    assert "Failed to fetch" in gone


def test_weights_come_once_and_go_to_the_gpu_and_to_the_disk(harness: Harness, site: Site) -> None:
    seen = script(
        harness,
        """
plain = await run(address, "webgpu", keep=False)
watch.seen()
first = await run(address, "webgpu")
entry = await kept(address)
fetched = json.loads(watch.seen())
js.fault = "offline"
return plain, first, await run(address, "webgpu"), fetched, entry.size
""",
        address=f"{site.url}{WEIGHTS}",
    )
    plain, first, offline, fetched, size = seen
    assert plain == first == offline
    ranges = sorted(tuple(map(int, asked[6:].split("-"))) for _, asked, _ in fetched)
    assert {status for status, _, _ in fetched} == {206}
    assert ranges[0] == (0, 65535)
    # After the head no byte is asked for twice, except by a request that began within the head.
    assert sum(last - first + 1 for first, last in ranges) < size + 65536
    assert ranges[-1][1] == size - 1


def test_another_version_takes_the_place_of_the_one_before(harness: Harness, address: str) -> None:
    seen = script(
        harness,
        """
await run(address)
before = await kept(address)
watch.seen()
js.fault = "newer"
opened = await library.open(address)
came, was_kept = opened.came, opened.kept
await opened.keep()
after = await kept(address)
js.fault = "offline"
return before.etag, after.etag, came, was_kept, await run(address)
""",
        address=address,
    )
    before, after, came, was_kept, values = seen
    assert before != after == '"newer"'
    assert (came, was_kept) == ("", False)
    assert values == [pytest.approx(0.6224593)] * 10


def test_what_came_half_way_is_no_file(harness: Harness, address: str) -> None:
    seen = script(
        harness,
        """
first = await library.open(address)
second = await library.open(address)  # as another tab would
listed = await library.entries()
busy = await raises(webpte.errors.SourceError, library.delete(address))
both = await second.keep(), await first.keep()
await kept(address)
await watch.cut()
js.fault = "offline"
cut = await raises(webpte.errors.SourceError, library.open(address))
js.fault = ""
third = await library.open(address)
third.leave()  # which takes a moment
for _ in range(500):
    await asyncio.sleep(0.02)
    with contextlib.suppress(webpte.errors.SourceError):
        await library.delete(address)
        break
for _ in range(500):  # what was left half-way is gone when the library is looked at
    await library.entries()
    if json.loads(await watch.files()) == []:
        break
    await asyncio.sleep(0.02)
return [one.missing for one in listed], busy, both, cut, json.loads(await watch.files())
""",
        address=address,
    )
    listed, busy, both, cut, left = seen
    assert listed == [1376]  # nothing is on the disk yet
    assert "is being written" in busy
    assert both == [False, True]
    assert "Failed to fetch" in cut
    assert left == []


def test_a_disk_that_fills_up_meanwhile_leaves_nothing_behind(harness: Harness, site: Site) -> None:
    """The disk fills up meanwhile: another tab may have taken the space."""
    address = f"{site.url}{WEIGHTS}"
    opened = "webpte.half_kept = await library.open(address)\nreturn webpte.half_kept.size"
    assert script(harness, opened, address=address) > 65536  # more than the first request brings
    browser = harness.page.context.new_cdp_session(harness.page)
    origin = {"origin": site.url.rstrip("/")}
    browser.send("Storage.overrideQuotaForOrigin", {**origin, "quotaSize": 1000})
    try:
        seen = script(
            harness,
            """
message = await raises(webpte.errors.SourceError, webpte.half_kept.keep())
async with await webpte.load(webpte.half_kept, device="numpy") as program:
    x = np.zeros(program.methods["forward"].inputs[0].shape, np.float32)
    ran = len(await program.forward(x))
return message, ran, len(await library.entries()), json.loads(await watch.files())
""",
        )
    finally:
        browser.send("Storage.overrideQuotaForOrigin", origin)
    message, ran, entries, files = seen
    assert "digits.pte could not be kept: the browser has no room left for this site" in message
    assert ran == 1
    assert (entries, files) == (0, [])


def test_what_is_cancelled_or_forgotten_locks_nobody_out(harness: Harness, address: str) -> None:
    """A tab that writes a file locks it for other tabs, for as long as it is open."""
    seen = script(
        harness,
        """
async def deleted():
    for _ in range(250):
        try:
            return await library.delete(address) or "deleted"
        except webpte.errors.SourceError as error:
            told = str(error)
        await asyncio.sleep(0.02)
    return told

ends = []
for milliseconds in (0, 1, 2, 3, 5, 8, 13, 500):
    opening = asyncio.ensure_future(library.open(address))
    await asyncio.sleep(milliseconds / 1000)
    opening.cancel()  # if it is open already, nobody asks for it any more
    del opening
    ends.append(await deleted())
return ends
""",
        address=address,
    )
    assert seen == ["deleted"] * 8


def test_an_address_is_that_of_the_site_wherever_it_is_written(
    harness: Harness, address: str
) -> None:
    """A page in another folder may mean another file by the same relative address."""
    seen = script(
        harness,
        """
async def names(*given):
    for one in given:
        file = await library.open(one)
        await file.keep()
    return [entry.address for entry in await library.entries()], file.came

short = address.removeprefix(js.location.origin)
found = await names(short, f"./docs/..{short}", address)
wrong = await raises(webpte.errors.SourceError, library.open("http://"))
await library.delete(short)
return *found, wrong, len(await library.entries())
""",
        address=address,
    )
    addresses, came, wrong, left = seen
    assert addresses == [address]
    assert came == "from the library, as its server has it"
    assert wrong.startswith("http:// is not an address")
    assert left == 0


def test_keeping_goes_on_when_who_waits_for_it_is_cancelled(harness: Harness, site: Site) -> None:
    seen = script(
        harness,
        """
file = await library.open(address)
told = []
first = asyncio.ensure_future(file.keep(lambda *stage: told.append(stage)))
await asyncio.sleep(0)
first.cancel()
second = await file.keep()  # which waits for the first
return second, file.kept, told[-1], (await library.entries())[0].size, file.size
""",
        address=f"{site.url}{WEIGHTS}",
    )
    kept, is_kept, last, on_disk, size = seen
    assert (kept, is_kept, on_disk) == (True, True, size)
    assert last == ["keep", size, size]


# Once a name is looked up, the incomplete file becomes a complete one: its tab has ended writing.
ENDS_MEANWHILE = """
await run(address)
entry = await kept(address)
ends = run_js('''async () => {
    const root = await navigator.storage.getDirectory();
    const folder = await root.getDirectoryHandle("webpte-library");
    const names = await Array.fromAsync(folder.keys());
    const name = names.find((one) => one.endsWith(".json"));
    const record = await (await (await folder.getFileHandle(name)).getFile()).text();
    const journal = name.replace(".json", ".part.json");
    const write = async (to) => {
        const out = await (await folder.getFileHandle(to, { create: true })).createWritable();
        await out.write(record);
        await out.close();
    };
    await write(journal);
    await folder.removeEntry(name);
    const { prototype } = FileSystemDirectoryHandle;
    const plain = prototype.getFileHandle;
    prototype.getFileHandle = async function (...given) {
        prototype.getFileHandle = plain;
        const found = await plain.apply(this, given).catch((error) => error);
        await write(name);
        await folder.removeEntry(journal);
        if (found instanceof Error) throw found;
        return found;
    };
}''')
await ends()
return [[vars(one) for one in await library.entries()], vars(entry)]
"""


def test_a_file_that_becomes_complete_meanwhile_is_listed(harness: Harness, address: str) -> None:
    listed, entry = script(harness, ENDS_MEANWHILE, address=address)
    assert listed == [entry]


def test_a_copy_names_its_parts(harness: Harness) -> None:
    seen = script(
        harness,
        """
parts = [await library.add(js.Blob.new([text]), f"m.pte/1-{text}.ptd") for text in "ab"]
address = await library.add(js.Blob.new(["first"]), "m.pte", parts=parts)
opened = await library.open(address)
found = {entry.address: entry.parts for entry in await library.entries()}
await library.add(js.Blob.new(["second"]), "m.pte")
again = await library.open(address)
return opened.parts, found[address], found[parts[0]], again.parts, len(found)
""",
    )
    parts = ["local:m.pte/1-a.ptd", "local:m.pte/1-b.ptd"]
    assert seen == [parts, parts, [], [], 3]


def test_a_copy_that_is_to_replace_nothing_replaces_nothing(harness: Harness) -> None:
    seen = script(
        harness,
        """
first = await library.open(await library.add(js.Blob.new(["first"]), "m.pte", replace=False))
try:
    await library.add(js.Blob.new(["second"]), "m.pte", replace=False)
except webpte.errors.SourceError as error:
    told = str(error)
copy = await library.open(await library.add(first, "n.pte", replace=False))
again = await library.open("local:m.pte")
names = sorted(entry.name for entry in await library.entries())
return told, *[str(await one.read(0, one.size), "ascii") for one in (again, copy)], names
""",
    )
    assert "m.pte is in the library already" in seen[0]
    assert seen[1:] == ["first", "first", ["m.pte", "n.pte"]]


def test_a_file_is_opened_again_while_it_is_written(harness: Harness, site: Site) -> None:
    assert python(harness, KEPT_TWICE, site=site.url) == KEPT
