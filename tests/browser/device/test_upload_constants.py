"""Upload of constants from files to buffers (upload_constants.js), in small blocks."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser

from support.harness import limits
from webpte.engine.gpu.convert import to_stored_bytes
from webpte_host.harness.browser import Harness
from webpte_host.setup import chromium

Described = tuple[int, int, str | None]  # offset, size, conversion

# A device that stores all writes, and files of all kinds with the same bytes.
SETUP = """([names]) => {
    for (const [name, text] of Object.entries(names)) globalThis[name] = eval(text);
    globalThis.downloads = makeDownloads(files, retry);
    globalThis.bytesOf = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
    globalThis.textOf = (bytes) => btoa(String.fromCharCode(...bytes));

    globalThis.makeTarget = (sizes) => {
        const buffers = new Map(sizes.map((size, id) => [id, new Uint8Array(size)]));
        const target = { buffers, writes: 0 };
        const queue = {
            writeBuffer(buffer, offset, data, start = 0, size = data.byteLength) {
                target.writes++;
                if (offset % 4 || size % 4) throw new Error(`${size} bytes to ${offset}`);
                buffer.set(data.subarray(start, start + size), offset);
            },
        };
        const failure = (name, message) => Object.assign(new Error(message), { name });
        const small = { rangeBytes: 64, blockBytes: 24, lanes: 3, stepBytes: 32 };
        target.upload = makeUpload({ queue }, buffers, () => {}, failure, small);
        return target;
    };

    // Byte streams, but each read gives a few bytes; or none at all, as in some browsers.
    globalThis.makeFile = {
        blob: (bytes) => files.blobFile(new Blob([bytes])),
        drips: (bytes) => files.blobFile({
            size: bytes.length,
            slice: (begin, end) => ({
                stream: () => new ReadableStream({
                    type: "bytes",
                    pull(controller) {
                        const { view } = controller.byobRequest;
                        const count = Math.min(1 + (begin % 5), view.byteLength, end - begin);
                        if (!count) {
                            controller.close();
                            controller.byobRequest.respond(0);
                            return;
                        }
                        view.set(bytes.subarray(begin, begin + count));
                        begin += count;
                        controller.byobRequest.respond(count);
                    },
                }),
            }),
        }),
        noByteStream: (bytes) => files.blobFile({
            size: bytes.length,
            slice: (begin, end) => ({
                stream: () => new ReadableStream(),
                arrayBuffer: async () => bytes.slice(begin, end).buffer,
            }),
        }),
    };
}"""

TRANSFER = """async ([kind, data, described, sizes]) => {
    const target = makeTarget(sizes);
    const seen = [];
    const total = described.reduce((sum, [, , size]) => sum + size, 0);
    const file = makeFile[kind](bytesOf(data));
    await target.upload(file, JSON.stringify(described), total, (...step) => seen.push(step));
    return { buffers: [...target.buffers.values()].map(textOf), seen, total };
}"""


@pytest.fixture
def page(harness: Harness, root: Path) -> Harness:
    engine = root / "pysrc/webpte/engine"
    names = {
        "makeUpload": engine / "gpu/webgpu/upload_constants.js",
        "files": engine / "browser/files.js",
        "retry": engine / "browser/retry.js",
        "makeDownloads": engine / "browser/downloads.js",
    }
    texts = {name: path.read_text(encoding="utf-8") for name, path in names.items()}
    harness.page.evaluate(SETUP, [texts])
    return harness


def stored(data: bytes, described: Described) -> bytes:
    offset, size, convert = described
    return bytes(to_stored_bytes(data[offset : offset + size], convert))


def check(page: Harness, kind: str, data: bytes, wanted: Sequence[Described]) -> dict[str, Any]:
    """Every buffer gets its bytes; they are described in the order of the file."""
    ordered = sorted(wanted, key=lambda item: item[0])
    expected = [stored(data, described) for described in ordered]
    described = [[index, *item] for index, item in enumerate(ordered)]
    sizes = [len(item) for item in expected]
    encoded = base64.b64encode(data).decode()
    reply: dict[str, Any] = page.page.evaluate(TRANSFER, [kind, encoded, described, sizes])
    for got, want, item in zip(reply["buffers"], expected, ordered, strict=True):
        assert base64.b64decode(got) == want, item
    assert reply["seen"][-1] == ["constants", reply["total"], reply["total"]]
    return reply


KINDS = ("blob", "drips", "noByteStream")


@pytest.mark.parametrize("kind", KINDS)
def test_constants_of_all_types_and_places(page: Harness, kind: str) -> None:
    random = np.random.default_rng(5)
    halves = random.standard_normal(77).astype(np.float16).tobytes()
    longs = random.integers(-(2**31), 2**31, 50).tobytes()
    doubles = random.standard_normal(31).tobytes()
    plain = random.bytes(301)
    data = b"?" + halves + plain + b"gap" + longs + doubles + random.bytes(99)
    start = 1 + len(halves)
    wanted: list[Described] = [
        (1, len(halves), "float16"),
        (start, 301, None),
        (start + 304, len(longs), "int64"),
        (start + 304 + len(longs), len(doubles), "float64"),
        (len(data) - 5, 5, None),
    ]
    reply = check(page, kind, data, wanted)
    done = [step[1] for step in reply["seen"]]
    assert done == sorted(done)
    assert len(done) > 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bytes_more_than_once(page: Harness, kind: str) -> None:
    """Also larger than one range, and overlapping."""
    data = np.random.default_rng(6).standard_normal(350).astype(np.float16).tobytes()
    wanted: list[Described] = [
        (4, 400, None),
        (4, 400, None),
        (4, 400, "float16"),
        (3, 40, None),
        (100, 8, None),
        (100, 8, "float16"),
        (420, 280, None),
        (420, 280, None),
    ]
    check(page, kind, data, wanted)


@pytest.mark.parametrize("kind", ["blob", "drips"])
def test_random_layouts(page: Harness, kind: str) -> None:
    random = np.random.default_rng(7)
    for _ in range(15):
        data = random.bytes(int(random.integers(1, 900)))
        begins = random.integers(0, len(data), 9)
        sizes = [int(random.integers(1, len(data) - begin + 1)) for begin in begins]
        check(page, kind, data, [(int(b), n, None) for b, n in zip(begins, sizes, strict=True)])


# Errors in the second of many ranges; nothing may be written after the error was reported, although
# the bytes of the third come only then.
FAIL = """async ([fault]) => {
    const bytes = new Uint8Array(1000).fill(1);
    const target = makeTarget([1000]);
    const blob = makeFile.blob(bytes);
    let opened = 0;
    const aborted = [];
    const late = (length) => ({
        async read() {
            await new Promise((resolve) => setTimeout(resolve, 30));
            return { value: new Uint8Array(length), done: false };
        },
    });
    const file = {
        size: 1000,
        async open(offset, length, signal) {
            opened++;
            signal.addEventListener("abort", () => aborted.push(offset));
            if (offset === 128) return late(length);
            if (offset !== 64) return blob.open(offset, length, signal);
            if (fault === "refused") throw new Error("the server answered 500");
            if (fault === "short") return blob.open(offset, length - 9, signal);
            if (fault === "long") return blob.open(offset, length + 9, signal);
            target.buffers.delete(0);
            return blob.open(offset, length, signal);
        },
    };
    const described = JSON.stringify([[0, 0, 1000, null]]);
    const error = await target.upload(file, described, 1000, undefined).catch((error) => error);
    const { writes } = target;
    await new Promise((resolve) => setTimeout(resolve, 100));
    const { name, message } = error;
    return { name, message, later: target.writes - writes, opened, aborted };
}"""


@pytest.mark.parametrize(
    ("fault", "name", "message"),
    [
        ("refused", "Error", "the server answered 500"),
        ("short", "Error", "received 55 of 64 bytes from byte 64 on"),
        ("long", "Error", "received 73 of 64 bytes from byte 64 on"),
        ("closed", "Closed", "the buffers of these constants were destroyed"),
    ],
)
def test_a_fault_ends_it_all(page: Harness, fault: str, name: str, message: str) -> None:
    seen = page.page.evaluate(FAIL, [fault])
    assert (seen["name"], seen["message"], seen["later"]) == (name, message, 0)
    assert seen["opened"] < 16
    assert 64 in seen["aborted"]


# A file by its address, of which all but the beginning is fetched in ranges, which the server
# answers with `status`. The answers begin `late` bytes too late, and the file `grew` meanwhile.
URL = """async ([status, late = 0, grew = 0]) => {
    const size = 200_000;
    const bytes = Uint8Array.from({ length: size }, (_, i) => i % 251);
    const requests = [];
    const fetched = globalThis.fetch;
    globalThis.fetch = async (url, { headers, signal }) => {
        const [begin, end] = headers.Range.slice(6).split("-").map(Number);
        requests.push([begin, end, signal instanceof AbortSignal]);
        const part = begin ? `${begin + late}-${end + late}/${size + grew}` : `0-${end}/${size}`;
        return new Response(bytes.slice(begin, end + 1), {
            status: begin ? status : 206, headers: { "Content-Range": `bytes ${part}` },
        });
    };
    try {
        const target = makeTarget([100, 1000]);
        const control = downloads.makeControl('{"attempts": 1}');
        const file = await downloads.openUrl("http://here/file", control);
        const described = JSON.stringify([[0, 100, 100, null], [1, 150_001, 1000, null]]);
        const going = target.upload(file, described, 1100, undefined);
        const error = await going.catch((error) => error);
        const [first, second] = [...target.buffers.values()];
        const right = first.every((byte, i) => byte === bytes[100 + i])
            && second.every((byte, i) => byte === bytes[150_001 + i]);
        return { message: error?.message, right, requests };
    } finally {
        globalThis.fetch = fetched;
    }
}"""


def test_ranges_of_a_url(page: Harness) -> None:
    seen = page.page.evaluate(URL, [206])
    assert (seen["message"], seen["right"]) == (None, True)
    head, *ranges = seen["requests"]
    assert head == [0, 65535, True]
    assert [begin for begin, _, _ in ranges] == list(range(150_001, 151_001, 64))
    assert all(end - begin < 64 and can_be_stopped for begin, end, can_be_stopped in ranges)


def test_a_server_that_does_not_go_on_with_ranges(page: Harness) -> None:
    for status in (200, 500):
        seen = page.page.evaluate(URL, [status])
        assert seen["message"] == f"the server answered {status} to bytes=150001-150064"


def test_a_server_that_answers_with_other_bytes(page: Harness) -> None:
    seen = page.page.evaluate(URL, [206, 8])
    assert seen["message"] == "the server answered bytes=150001-150064 with bytes from 150009 on"
    for size in (1, -1):
        seen = page.page.evaluate(URL, [206, 0, size])
        assert seen["message"].startswith("the file changed on its server while it was being read")


# Only the promise of the next bytes references the reader of a file, while memory is collected.
_SWEPT = """async ([text, rounds, ms]) => {
    const file = globalThis.file = eval(text).blobFile(new Blob([new Uint8Array(40_000)]));
    const readAll = async () => {
        const source = await file.open(16, 30_000, new AbortController().signal);
        let came = 0;
        for (let block = new Uint8Array(1 << 20); ;) {
            const { value, done } = await source.read(block);
            if (value) {
                came += value.byteLength;
                block = new Uint8Array(value.buffer);
            }
            if (done) return came;
        }
    };
    const sweeping = setInterval(gc, 0);
    try {
        for (let round = 0; round < rounds; round++) {
            const late = new Promise((resolve) => setTimeout(resolve, ms, "never"));
            const came = await Promise.race([readAll(), late]);
            if (came !== 30_000) return came;
        }
        return "all";
    } finally {
        clearInterval(sweeping);
    }
}"""


def test_what_is_read_is_not_swept_away(browser: Browser, root: Path) -> None:
    """Garbage collection took streams that were being read: one load of a thousand never ended."""
    text = (root / "pysrc/webpte/engine/browser/files.js").read_text(encoding="utf-8")
    launched = browser.browser_type.launch(
        **chromium.launch_options(None, "--js-flags=--expose-gc")
    )
    try:
        seen = launched.new_page().evaluate(_SWEPT, [text, 20, limits.BROWSER_MS])
    finally:
        launched.close()
    assert seen == "all"
