"""Writes docs/reference/decoders.md: which families of language models give PyTorch's tokens.

    PYTHONPATH=pysrc:tests python -m support.docs.decoder_table          exports all: an hour
    PYTHONPATH=pysrc:tests python -m support.docs.decoder_table llama    exports these

The command runs in the export environment, with a process for each family. A test holds that the
page names each family, with the result of its configuration and of the pinned libraries.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from support.llm.decoder_families import FAMILIES, Family, try_family
from webpte_export.errors import ExportError
from webpte_host.base.layout import ROOT
from webpte_host.setup.export_environment import PINNED

FILE = ROOT / "docs" / "reference" / "decoders.md"
LIBRARIES = ("torch", "executorch", "transformers")
_SECONDS = 600
_TOKENS = 8

_HEAD = """\
# Language models of the transformers library

Each family is a small configuration with random weights, exported as `serve.py export FOLDER` \
does, with a KV cache or states.
The program is called on NumPy with a prompt and then token by token; *equal* means that its \
likeliest tokens are those of the
library's model without a cache, and its logits, too. Submissions are those of a call on a GPU.
Made with {made}, by `python -m support.docs.decoder_table`.

A model of a refused family ends with the sentence in its row, before anything is written. It is \
exported without a cache by
[`serve.py export MODULE:FUNCTION`](../use/export.md), like any module.

"""
_EQUAL = "| equal | tokens a call | submissions | |\n|---|---|---|---|\n"
_REFUSED = "\n| refused | why |\n|---|---|\n"
_UNTRIED = "Compared as modules with a cache, but not yet as programs of these libraries: "
_COLUMNS = re.compile(r"^\| (\w+) <!--(\w+)--> \| (.*) \|$", re.MULTILINE)


def digest(family: Family) -> str:
    """Return a digest of a family's configuration."""
    text = json.dumps([family.stem, family.options], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def rows_of(page: str) -> dict[str, tuple[str, str]]:
    """Return the rows of a page by family: the configuration's digest, and the other columns."""
    return {name: (made, rest) for name, made, rest in _COLUMNS.findall(page)}


def page_of(rows: Mapping[str, tuple[str, str]], made: str) -> str:
    """Return the page; a row with a single further column is a refusal."""
    lines: dict[bool, list[str]] = {True: [], False: []}
    for family in FAMILIES:
        if family.name in rows:
            config, rest = rows[family.name]
            equal = rest.count(" | ") == 2
            lines[equal].append(f"| {family.name} <!--{config}--> | {rest} |\n")
    parts = [_HEAD.format(made=made), _EQUAL, *lines[True]]
    if lines[False]:
        parts += [_REFUSED, *lines[False]]
    untried = [family.name for family in FAMILIES if family.name not in rows]
    if untried:
        parts += ["\n", textwrap.fill(f"{_UNTRIED}{', '.join(untried)}.", 140), "\n"]
    return "".join(parts)


def pinned() -> str:
    """Return the versions of the libraries that the export environment has."""
    found = dict(each.split("==") for each in PINNED)
    return ", ".join(f"{name} {found[name]}" for name in LIBRARIES)


def _row(family: Family, folder: Path) -> str:
    try:
        found = try_family(family, folder, _TOKENS)
    except ExportError as refused:
        return _sentence(str(refused))
    if not found["passed"]:
        raise SystemExit(f"{family.name} differs from its model: {found['problem']}")
    count = "1" if found["chunk"] == 1 else "many"
    return f"{count} | {found['submissions']} | {family.note}"


def _sentence(text: str) -> str:
    """Return a refusal as text of a column, without what all refusals say and the details."""
    own, _, _ = text.partition("\nDetails of ")
    own, _, _ = own.partition("\nIts attention or its state ")
    return " ".join(line.strip() for line in own.replace("|", "/").splitlines())


def _in_a_process(family: Family) -> str:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_row, args=(family.name, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(_SECONDS):
            raise SystemExit(f"{family.name}: no result within {_SECONDS} s")
        return str(receiver.recv())
    except EOFError:
        raise SystemExit(f"{family.name}: the export ended without a result") from None
    finally:
        process.kill()
        process.join()


def _send_row(name: str, sender: Any) -> None:
    (family,) = (each for each in FAMILIES if each.name == name)
    with tempfile.TemporaryDirectory() as folder:
        sender.send(_row(family, Path(folder)))


def main(names: Iterable[str]) -> None:
    made = ", ".join(f"{name} {version(name).partition('+')[0]}" for name in LIBRARIES)
    if made != pinned():
        raise SystemExit(f"this environment has {made}; the export environment has {pinned()}")
    wanted = set(names) or {family.name for family in FAMILIES}
    rows = rows_of(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for family in FAMILIES:
        if family.name in wanted:
            rows[family.name] = digest(family), _in_a_process(family)
            FILE.write_text(page_of(rows, made), encoding="utf-8")
            print(family.name, rows[family.name][1], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
