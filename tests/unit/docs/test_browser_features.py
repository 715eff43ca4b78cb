"""docs/inside/adapters.md lists the features of WGSL and browsers that the code uses."""

from __future__ import annotations

import re
from pathlib import Path

from support.harness.every import check_every
from webpte.engine.gpu.device_info import FEATURES
from webpte_host.base.layout import PYSRC, ROOT, WEB, WGSL

# What a browser may lack, as the code writes it, and the row of the table that is about it.
USES = {
    r"\bnavigator\??\.(\w+)": None,  # the row has the name itself
    r"\bcreateWritable\b": "createWritable",
    r"\bcreateSyncAccessHandle\b": "createSyncAccessHandle",
    r"\bgetDirectory\b": "getDirectory",
    r"\blocks\.request\b": "Web Locks",
    r"\bcaches\.open\b": "Cache Storage",
    r"mode: \"byob\"": "BYOB readers",
    r"type: \"module\"": "module workers",
    r"\bcrossOriginIsolated\b": "shared memory",
    r"\bSharedArrayBuffer\b": "shared memory",
    r"\bAtomics\b": "shared memory",
    r"\b(?:De)?[cC]ompressionStream\b": "compression streams",
    r"\bOffscreenCanvas\b": "OffscreenCanvas",
    r"\bMediaRecorder\b": "MediaRecorder",
    r"\bAudioContext\b": "AudioContext",
    r"\bArray\.fromAsync\b": "Array.fromAsync",
    r"\btoSorted\b": "toSorted",
    r"\bcheckVisibility\b": "checkVisibility",
    r"\blocalStorage\b": "localStorage",
}


def sources() -> list[Path]:
    scripts = [*WEB.rglob("*.js"), *WEB.glob("*.html"), *(WEB / "page").rglob("*.py")]
    return [*scripts, *(PYSRC / "webpte").rglob("*.js"), *(PYSRC / "webpte/engine").rglob("*.py")]


def used() -> set[str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources())
    found = set[str]()
    for pattern, row in USES.items():
        matches = re.findall(pattern, text)
        found |= (
            {f"navigator.{name}" for name in matches}
            if row is None
            else {row}
            if matches
            else set()
        )
    return found


def listed(heading: str) -> set[str]:
    """Return the first column of the table below a heading."""
    text = (ROOT / "docs/inside/adapters.md").read_text(encoding="utf-8")
    section = text.partition(f"### {heading}\n")[2].partition("\n#")[0]
    return {row.strip("`") for row in re.findall(r"^\| ([^|]+?) \|", section, re.MULTILINE)[1:]}


def test_every_web_api_is_listed() -> None:
    assert used() == listed("Web APIs")


def wgsl_extensions() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in WGSL.rglob("*.wgsl")]
    texts += [path.read_text(encoding="utf-8") for path in (PYSRC / "webpte").rglob("*.py")]
    code = "\n".join(texts)
    return {f"enable {name}" for name in re.findall(r"\benable (\w+);", code)}


def test_every_wgsl_extension_and_feature_is_listed() -> None:
    rows = listed("WGSL and WebGPU")
    assert {row for row in rows if row.startswith("enable ")} == wgsl_extensions()
    assert set(FEATURES) <= rows


def test_no_shader_requires_a_language_feature() -> None:
    """A compiler that does not know the name would refuse the whole shader."""

    def check(path: Path) -> None:
        code = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*requires\b", code, re.MULTILINE)
        assert "texture" not in re.sub(r"//.*", "", code)

    check_every(sorted(WGSL.rglob("*.wgsl")), check)
