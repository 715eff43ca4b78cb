"""Two tabs: what both write is kept, and each knows of the other."""

from __future__ import annotations

from support.page.page import python
from webpte_host.harness.browser import Harness

BOTH = """
from webpte.engine.browser.scripts import load_script
from webpte.engine.browser.settings_store import BrowserStore
import asyncio, json

async def add(key):
    store = BrowserStore("test_locks.json")
    async with store.locked():
        table = json.loads(await store.read() or "{}")
        await asyncio.sleep(0.02)
        table[key] = True
        await store.write(json.dumps(table))

await BrowserStore("test_locks.json").write("{}")
await asyncio.gather(*(add(str(n)) for n in range(5)))
table = json.loads(await BrowserStore("test_locks.json").read())
locks = load_script("browser/web_locks.js")
async def mine():
    return sorted(n for n in json.loads(await locks.held()) if n.startswith("webpte-test"))

first = await locks.acquire("webpte-test 1")
alone = await mine()
second = await locks.acquire("webpte-test 2")
both = await mine()
first()
while len(again := await mine()) > 1:  # it is let go some time later
    await asyncio.sleep(0.02)
second()
return [sorted(table), alone, both, again]
"""


def test_nothing_is_lost_and_others_are_seen(harness: Harness) -> None:
    table, alone, both, again = python(harness, BOTH)
    assert table == ["0", "1", "2", "3", "4"]
    one, two = "webpte-test 1", "webpte-test 2"
    assert [alone, both, again] == [[one], [one, two], [two]]
