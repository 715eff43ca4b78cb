"""Small models that see pictures in the layouts of published repositories."""

from __future__ import annotations

import hashlib
import json
from functools import cache

from support.harness.hub_site import files_of
from support.harness.image_text_cases import models_folder
from support.llm.whisper_layouts import only_method

PARTS = "executorch-community/SmolVLM-Tiny-ExecuTorch-WebGPU"
RUNNER = "someone/SmolVLM-ExecuTorch"
MODEL = "one-tile"  # the same model in one program of three methods
# Methods by the names of their programs in the repository.
_PROGRAMS = {
    "vlm_vision_q8.pte": "vision_encoder",
    "vlm_embed_tokens_q8.pte": "token_embedding",
    "vlm_decoder.pte": "text_decoder",
}
CARD = b"---\npipeline_tag: image-text-to-text\n---\n"


@cache
def repositories() -> dict[str, dict[str, bytes]]:
    """Return the files of each repository, by its name."""
    files = files_of(models_folder() / MODEL)
    whole = files.pop("model.pte")
    del files["model.manifest.json"]
    parts = {path: only_method(whole, name) for path, name in _PROGRAMS.items()}
    listed = [{"path": path, "sha256": _hash(data)} for path, data in parts.items()]
    return {
        PARTS: {
            "README.md": CARD,
            "manifest.json": json.dumps({"files": listed}).encode(),
            **parts,
            **files,
        },
        RUNNER: {"README.md": CARD, "m_xnnpack_8da8w.pte": _renamed(whole), **files},
    }


def _renamed(data: bytes) -> bytes:
    """Give methods shorter names, which other exporters give them."""
    for old, new in (("token_embedding", "embed_tokens"), ("text_decoder", "text_model")):
        before, after = _string(old), _string(new)
        assert data.count(before) == 1
        data = data.replace(before, after.ljust(len(before), b"\0"))
    return data


def _string(text: str) -> bytes:
    """Return a string of a flatbuffer."""
    return len(text).to_bytes(4, "little") + text.encode() + b"\0"


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
