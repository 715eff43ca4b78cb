"""A file that is opened again while its first copy is being written, in the harness page."""

from __future__ import annotations

# The second opening has found nothing in the library, and its server answers only after the first
# copy is complete. A third has found the first copy, and reads it at the end.
KEPT_TWICE = """
from pyodide.code import run_js
from webpte import library
from webpte.engine.open.siblings import read_sibling

fetched = run_js('''() => {
    const plain = globalThis.fetch;
    let free, asked = false;
    const held = new Promise((resolve) => { free = resolve; });
    globalThis.fetch = async (...given) => {
        globalThis.fetch = plain;
        asked = true;
        await held;
        return plain(...given);
    };
    return { free, asked: () => asked, end() { globalThis.fetch = plain; } };
}''')
for entry in await library.entries():
    await library.delete(entry.address)
address = site + "samples/stories.tokenizer.json"
plain = await library.open(address, keep=False)
wanted = await plain.read(0, plain.size)
first = await library.open(address, keep=True)
gate = fetched()
try:
    second_opening = asyncio.ensure_future(library.open(address, keep=True))
    while not gate.asked():
        await asyncio.sleep(0.01)
    await first.keep()
    third = await library.open(address, keep=True)
    gate.free()
    second = await second_opening
    again = await second.keep()
    found = [await one.read(0, one.size) == wanted for one in (first, second, third)]
    beside = await read_sibling(site + "samples/stories.pte", "stories.tokenizer.json", keep=True)
finally:
    gate.end()
(entry,) = await library.entries()
return [third.came, again, found, beside == wanted, entry.missing]
"""
KEPT = ["from the library, as its server has it", False, [True] * 3, True, 0]
