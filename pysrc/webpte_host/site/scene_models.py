"""Small models of the tests, for scenes of views that no sample opens.

Their weights are random, so their answers are meaningless; the pictures show the layout.
"""

from __future__ import annotations

import json
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from webpte_host.base.layout import ROOT
from webpte_host.serving.routing import Mount

PREFIX = "/scenes/"
_DATA = ROOT / "tests" / "data"
_ARCHIVES = ("tasks/models.tar.xz", "speech/ears.tar.xz", "speech/voices.tar.xz")
_TRAINED = "llm/training.zip"
_ENCODER = "text/encoder.pte"  # uses the words of the model "vectors"
# The models' tasks, which are written into their manifests.
_TASKS = {"things": "object-detection", "entities": "token-classification"}
_TEMPLATE = (
    "<s>{% for m in messages %}{{ m['role'][:1] }}:{{ m['content'] }}"
    "{% if m['role'] == 'assistant' %}</s>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}"
)


@contextmanager
def scene_models() -> Iterator[list[Mount]]:
    """Unpack the models while pictures are taken; a copy without tests yields None."""
    if not (_DATA / _TRAINED).exists():
        yield []
        return
    with TemporaryDirectory(prefix="scenes") as name:
        folder = Path(name)
        _unpack(folder)
        yield [Mount(PREFIX, folder)]


def _unpack(folder: Path) -> None:
    for archive in _ARCHIVES:
        with tarfile.open(_DATA / archive) as packed:
            packed.extractall(folder, filter="data")
    with zipfile.ZipFile(_DATA / _TRAINED) as files:
        files.extractall(folder / "trained")
    tokens = {"bos_token": "<s>", "eos_token": "</s>", "chat_template": _TEMPLATE}
    _write(folder / "trained" / "tokenizer_config.json", tokens)
    (folder / "encoder").mkdir()
    (folder / "encoder" / "model.pte").write_bytes((_DATA / _ENCODER).read_bytes())
    tokenizer = (folder / "vectors" / "tokenizer.json").read_bytes()
    (folder / "encoder" / "tokenizer.json").write_bytes(tokenizer)
    for model, task in _TASKS.items():
        _write(folder / model / f"{task}.json", {"task": task, "program": "model.pte"})


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")
