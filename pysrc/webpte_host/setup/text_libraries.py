"""Libraries for the texts of compiled language models, from npm by their hash."""

from __future__ import annotations

import tempfile
from pathlib import Path

from webpte_host.base.layout import STATE
from webpte_host.base.progress import Display
from webpte_host.setup import esbuild, sources

# By the file of a compiled program: package, version, member, hash, and what surrounds it.
_LIBRARIES = {
    "tokenizers.js": (
        "@huggingface/tokenizers",
        "0.2.0",
        "dist/tokenizers.min.cjs",
        "823659581561e4845b2f5b08b86d2289614dc2a392be35ae6b49a45e284966a6",
        "const module = { exports: {} };\nconst { exports } = module;\n%s\n"
        "export const { Tokenizer } = module.exports;\n",
    ),
    "jinja.js": (
        "@huggingface/jinja",
        "0.5.11",
        "dist/index.js",
        "c8871915dfa68f976c11540c33fc9341c0810ebe29adb7027b8d51f2a8044936",
        "%s",
    ),
}


def text_libraries(display: Display) -> dict[str, bytes]:
    """Return the ES modules by name; each is fetched once, and kept minified. Raises HostError."""
    return {name: _library(name, display) for name in _LIBRARIES}


def _library(name: str, display: Display) -> bytes:
    package, version, member, sha256, around = _LIBRARIES[name]
    kept = STATE / "libraries" / f"{sha256[:16]}-esbuild-{esbuild.VERSION}-{name}"
    if kept.is_file():
        return kept.read_bytes()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (
        display.stage(f"{package} {version} from npm"),
        tempfile.TemporaryDirectory(dir=kept.parent) as work,
    ):
        data = sources.npm_files(package, version, [member], Path(work) / "npm")[member]
        sources.check_hash(data, sha256, f"{member} of {package} {version} from npm")
        made = Path(work) / name
        made.write_text(esbuild.minified(around % data.decode(), display), "utf-8")
        made.replace(kept)
    return kept.read_bytes()
