"""A large constant, streamed from a URL to the GPU; and a constant larger than a buffer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from support.page.page import python
from support.write.pte_writer import GraphWriter, Node, Scalar, write_pte
from webpte_host.harness.browser import Harness
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

WIDTH = 1 << 12  # bytes of a row
HEAP = 32 << 20  # growth of Python's memory that is allowed: less than one range of the file
LAST = bytes(range(256)) * (WIDTH // 256)


def write_table(path: Path, nbytes: int, dim: int = 0) -> None:
    """Write a program that looks up rows, or with a `dim` of 1 columns, of a large table.

    Its file is sparse: zeros except for the last row. A table of columns cannot be in parts.
    """
    g = GraphWriter()
    table = g.tensor((nbytes // WIDTH, WIDTH), "uint8", constant=b"placeholder")
    index = g.tensor((2,), "int32")
    rows = g.tensor((nbytes // WIDTH, 2) if dim else (2, WIDTH), "uint8")
    g.inputs(index)
    g.outputs(g.op("aten.index_select.default", table, g.int(dim), index, rows))

    def enlarge(root: Node) -> None:
        segments = root.slots[4]
        assert isinstance(segments, list)
        segments[-1].slots[1] = Scalar("u64", nbytes)
        start = segments[-1].slots[0]
        assert isinstance(start, Scalar)
        places.append(int(start.value))

    places: list[int] = []
    data = write_pte(g, edit=enlarge)
    begin = int.from_bytes(data[24:32], "little") + places[0]
    with path.open("wb") as file:
        file.write(data)
        file.seek(begin)
        file.write(bytes(len(data) - begin))
        file.seek(begin + nbytes - WIDTH)
        file.write(LAST)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for path in tmp_path.glob("*.pte"):
        path.unlink()


LIMIT = """
limits = (await shared_device()).info.limits
return min(limits["maxBufferSize"], limits["maxStorageBufferBindingSize"])
"""

LOAD = """
from pyodide_js import _module

before, seen = _module.HEAP8.length, []
url = f"{origin}/big/table.pte"
async with await webpte.load(url, progress=lambda *state: seen.append(state)) as program:
    last = program.methods["forward"].constants[0].shape[0] - 1
    (rows,) = await program.forward(np.array([0, last], np.int32))
    stats = program.stats
steps = [done for stage, done, total in seen if stage == "constants"]
return rows, stats.buffer_bytes, _module.HEAP8.length - before, steps
"""

TOO_LARGE = """
device = await shared_device()
message = await raises(webpte.errors.OutOfMemoryError, webpte.load(f"{origin}/big/table.pte"))
small = await webpte.load(f"{origin}/samples/sigmoid.pte")
small.close()
return message
"""


@pytest.mark.thorough
def test_a_large_constant_and_one_that_is_too_large(own_browser: Browser, folder: Path) -> None:
    with Site(mounts=[Mount("/big/", folder)]) as site:
        harness = Harness.open(own_browser, site)
        limit = python(harness, LIMIT)
        nbytes = min(limit, 1 << 28)
        write_table(folder / "table.pte", nbytes)
        origin = site.url.rstrip("/")
        rows, allocated, grown, steps = python(harness, LOAD, origin=origin)
        assert rows == [[0] * WIDTH, list(LAST)]
        assert allocated >= nbytes
        assert grown < HEAP
        assert steps[-1] == nbytes
        assert len(steps) > 4
        nbytes = (limit + (1 << 28)) // WIDTH * WIDTH
        write_table(folder / "table.pte", nbytes, dim=1)
        message = python(harness, TOO_LARGE, origin=origin)
        assert f"{nbytes:,} bytes), which op 0 (aten.index_select.default) reads, is" in message
        assert f"over this GPU's limit of {limit // 16 * 16:,} bytes for one buffer" in message
        harness.close()
