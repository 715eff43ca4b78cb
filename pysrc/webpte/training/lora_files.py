"""A trained LoRA as files: adapter_model.safetensors and adapter_config.json, as PEFT has them."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.format.safetensors import LENGTH
from webpte.errors import InputError
from webpte.llm.lora.files import CONFIG, WEIGHTS
from webpte.llm.lora.weights import LoraWeights
from webpte.training.lora_form import LoraForm

_PREFIX = "base_model.model."
_ALIGNMENT = 8  # of the header's length, by the format
_EPOCH = (2020, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class SavedLora:
    """The two files of a LoRA: `webpte.llm.load_lora(program, saved.weights, config=saved.config)`.

    weights  the bytes of adapter_model.safetensors
    config   the content of adapter_config.json
    """

    weights: bytes = field(repr=False)
    config: dict[str, Any]

    def files(self) -> dict[str, bytes]:
        """Return the files by name."""
        text = json.dumps(self.config, indent=1) + "\n"
        return {WEIGHTS: self.weights, CONFIG: text.encode()}

    def zip(self) -> bytes:
        """Return an archive with both files, the same for the same LoRA."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
            for name, data in self.files().items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data)
        return packed.getvalue()

    def write(self, folder: str | Path) -> None:
        """Write both files to a folder, which is created if necessary."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, data in self.files().items():
            draft = place / f"{name}.part"
            draft.write_bytes(data)
            draft.replace(place / name)


def saved_lora(form: LoraForm, w: np.ndarray, base: str | None = None) -> SavedLora:
    """Return the files of a flat vector; `base` is the name of the model that was trained."""
    arrays: dict[str, np.ndarray] = {}
    for layer in form.layers:
        for side, matrix in zip("AB", layer.matrices(w), strict=True):
            arrays[f"{_PREFIX}{layer.name}.lora_{side}.weight"] = matrix
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "inference_mode": True,
        "r": form.rank,
        "lora_alpha": form.alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted({layer.name.rpartition(".")[2] for layer in form.layers}),
        "bias": "none",
        "fan_in_fan_out": False,
        "modules_to_save": None,
        "use_rslora": False,
        "use_dora": False,
    }
    return SavedLora(_safetensors(arrays), config)


def _safetensors(arrays: dict[str, np.ndarray]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, array in sorted(arrays.items()):
        part = np.ascontiguousarray(array, "<f4").tobytes()
        offsets = [len(data), len(data) + len(part)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        data += part
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return LENGTH.pack(len(text)) + text + bytes(data)


def flat_vector(form: LoraForm, lora: LoraWeights) -> np.ndarray:
    """Return a LoRA from files as a flat vector; raise InputError for another form."""
    w = np.zeros(form.count, np.float32)
    names = {layer.name for layer in form.layers}
    if other := sorted(lora.factors.keys() - names):
        raise InputError(f"{lora.name} has a layer {other[0]!r}, which this program does not train")
    scale = form.alpha / form.rank
    for layer in form.layers:
        factor = lora.factors.get(layer.name)
        if factor is None:
            raise InputError(f"{lora.name} has no layer {layer.name!r}, which this program trains")
        if (factor.rank, factor.inputs, factor.outputs) != (
            form.rank,
            layer.inputs,
            layer.outputs,
        ):
            raise InputError(
                f"{lora.name}: layer {layer.name!r} has rank {factor.rank} and is "
                f"{factor.outputs} x {factor.inputs}; this program trains rank {form.rank} of "
                f"{layer.outputs} x {layer.inputs}"
            )
        layer.put(w, factor.a, factor.b / np.float32(scale))
    return w
