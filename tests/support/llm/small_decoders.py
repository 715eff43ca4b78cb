"""Small exports of many families of decoders, which export_decoders.py made."""

from __future__ import annotations

import zipfile

from webpte_host.base.layout import ROOT

DECODERS = ROOT / "tests" / "data" / "llm" / "decoders.zip"


def program_of(family: str) -> bytes:
    """Read the program of one family: two layers, with 8-bit weights."""
    with zipfile.ZipFile(DECODERS) as packed:
        return packed.read(f"{family}.pte")
