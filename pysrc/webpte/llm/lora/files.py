"""Reads LoRA files: as PEFT writes them (safetensors and adapter_config.json), or as `.ptd`.

Tensors are named `base_model.model.LAYER.lora_A.weight` and `lora_B`. Features beyond two matrices
for each linear layer (DoRA, biases, whole layers, embeddings) are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from webpte.engine.files.json_reader import Table, parse_table, shown
from webpte.engine.files.source import ByteSource, naming
from webpte.engine.format.ptd import read_ptd
from webpte.engine.format.safetensors import read_safetensors
from webpte.engine.format.shared import ScalarType
from webpte.engine.open.open_source import keeping, open_source
from webpte.errors import FormatError, InputError, SourceError, UnsupportedError
from webpte.llm.lora.weights import Factor, LoraWeights

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
MAX_CONFIG = 1 << 20
_NAME = re.compile(r"(?:base_model\.model\.)?(?P<layer>.+)\.lora_(?P<side>[ABab])(\.\w+)?\.weight")
_PLAIN = re.compile(r"\^?[\w.]+")  # a pattern that is a name, or the end of a name
_DTYPES = {
    ScalarType.FLOAT: "F32",
    ScalarType.HALF: "F16",
    ScalarType.BFLOAT16: "BF16",
    ScalarType.DOUBLE: "F64",
}
# Settings of PEFT that change more than two matrices of each layer, with the values that do not.
_OTHERS: dict[str, tuple[Any, ...]] = {
    "use_dora": (False,),
    "bias": ("none",),
    "lora_bias": (False,),
    "modules_to_save": ([],),
    "layer_replication": ([],),
    "trainable_token_indices": ([], {}),
    "target_parameters": ([],),
    "alora_invocation_tokens": ([],),
    "use_qalora": (False,),
    "use_bdlora": (False, {}),
    "arrow_config": ({},),
}
_CHANGES_BASE = ("pissa", "olora", "corda", "loftq", "lora_ga")  # ways to begin a training


async def read_lora(
    source: Any,
    *,
    config: Any = None,
    alpha: float | None = None,
    name: str | None = None,
    keep: bool = False,
    **fetch: Any,
) -> LoraWeights:
    """Read a LoRA; `keep` and `fetch` are arguments of `open_source`.

    source  a folder or its address, with adapter_model.safetensors and adapter_config.json; or a
            .safetensors or .ptd file with that JSON in the same folder; or the bytes of such a file
    config  the JSON, if it is in another place: a path, a URL, bytes, or a dict
    alpha   the scale times the rank, in place of the JSON
    name    for messages; by default the name of the folder or file
    """
    with keeping(keep) as files:
        fetch["keep"] = keep
        return await _read(source, config, alpha, name, files, fetch)


async def _read(
    source: Any,
    config: Any,
    alpha: float | None,
    name: str | None,
    files: list[Any],
    fetch: Mapping[str, Any],
) -> LoraWeights:
    """Read a LoRA; append the opened files to `files`, for the caller to close."""
    file, beside = _places(source)
    opened = await open_source(file, **fetch)
    files.append(opened)
    opened_name = name or _name_of(source, opened)
    if alpha is None:
        if config is None and beside is None:
            raise InputError(
                f"{opened_name}: the bytes of a LoRA do not tell its scale; give its "
                f"{CONFIG} (config=...) or alpha=..."
            )
        table = await _read_config(beside if config is None else config, files, fetch)
        scales = _Scales(table)
    elif config is not None:
        raise InputError("give config or alpha, not both: the config has an alpha")
    else:
        scales = _Scales(_plain_config(alpha))
    arrays = await _read_arrays(opened)
    return LoraWeights(opened_name, _factors(arrays, scales, opened_name))


def _places(source: Any) -> tuple[Any, str | Path | None]:
    """Return the file of the weights, and the place of the JSON, if the source has a place."""
    if not isinstance(source, str | Path):
        return source, None
    if isinstance(source, Path):
        is_file = source.suffix.lower() in (".safetensors", ".ptd")
        return (source, source.parent / CONFIG) if is_file else (source / WEIGHTS, source / CONFIG)
    path = source.partition("#")[0].partition("?")[0]
    if path.lower().endswith((".safetensors", ".ptd")):
        folder, slash, _ = path.rpartition("/")
        return source, f"{folder}{slash}{CONFIG}"
    folder = path.rstrip("/")
    return f"{folder}/{WEIGHTS}", f"{folder}/{CONFIG}"


def _name_of(source: Any, opened: ByteSource) -> str:
    if opened.name == WEIGHTS and isinstance(source, str | Path):
        parts = [part for part in re.split(r"[/\\]", str(source)) if part not in ("", WEIGHTS)]
        return parts[-1] if parts else WEIGHTS
    return opened.name


async def _read_config(config: Any, files: list[Any], fetch: Mapping[str, Any]) -> Table:
    if isinstance(config, Mapping):
        return Table(_there(config), "the LoRA's config", InputError)
    try:
        file = await open_source(config, **fetch)
    except SourceError as error:
        raise SourceError(
            f"{error}; a LoRA needs its {CONFIG}, which tells its scale (or give alpha=...)"
        ) from error
    files.append(file)
    if file.size > MAX_CONFIG:
        raise InputError(f"{file.name} has {file.size:,} bytes: too long for a LoRA's config")
    table = parse_table(await file.read(0, file.size), file.name, InputError)
    return Table(_there(table.content), file.name, InputError)


def _there(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.items() if value is not None}


def _plain_config(alpha: float) -> Table:
    is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
    if not is_number or not math.isfinite(alpha):
        raise InputError(f"alpha={alpha!r} is not a number")
    return Table({"peft_type": "LORA", "lora_alpha": alpha}, "alpha", InputError)


class _Scales:
    """The scales of layers by a LoRA's config, which is checked first."""

    def __init__(self, table: Table) -> None:
        kind = table.text("peft_type", "LORA")
        if kind.upper() != "LORA":
            raise UnsupportedError(f"{table.name}: an adapter of kind {kind!r} is not a LoRA")
        for key, allowed in _OTHERS.items():
            if key in table and table.content[key] not in allowed:
                raise UnsupportedError(
                    f"{table.name}: {key} is {shown(table.content[key])}; only plain LoRA of "
                    "linear layers is supported: train it without, or merge it into the model"
                )
        begun = str(table.content.get("init_lora_weights", True)).lower()
        if begun.startswith(_CHANGES_BASE):
            raise UnsupportedError(
                f"{table.name}: init_lora_weights is {begun!r}, which also changes the model's own "
                "weights: convert it to a plain LoRA when it is saved "
                "(path_initial_model_for_weight_conversion of PEFT)"
            )
        self._name = table.name
        self._rank = table.integer("r", 0, low=1, high=1 << 16) if "r" in table else 0
        self._alpha = float(table.number("lora_alpha"))
        self._root = table.flag("use_rslora", False)
        self._ranks, self._alphas = (
            self._patterns(table, key) for key in ("rank_pattern", "alpha_pattern")
        )

    def _patterns(self, table: Table, key: str) -> dict[str, float]:
        inner = table.table(key, Table({}, table.name, InputError))
        for pattern in inner.content:
            if _PLAIN.fullmatch(pattern) is None:
                raise UnsupportedError(
                    f"{inner.name}: {shown(pattern)} is not a name or the end of one; other "
                    "patterns are not supported"
                )
        return {pattern: float(inner.number(pattern)) for pattern in inner.content}

    def of(self, layer: str, rank: int) -> float:
        """Return the scale of a layer whose matrices have this rank."""
        wanted = _found(self._ranks, layer, self._rank)
        if wanted and wanted != rank:
            raise InputError(
                f"{self._name}: the rank of {layer!r} is {wanted:g}, but its weights have {rank}"
            )
        alpha = _found(self._alphas, layer, self._alpha)
        return alpha / (math.sqrt(rank) if self._root else rank)


def _found(patterns: Mapping[str, float], layer: str, default: float) -> float:
    """Return the value of the first pattern that a layer's name matches, as PEFT does."""
    for pattern, value in patterns.items():
        name = pattern.removeprefix("^")
        if layer == name or (name == pattern and layer.endswith(f".{name}")):
            return value
    return default


async def _read_arrays(file: ByteSource) -> dict[str, np.ndarray]:
    """Read all tensors of a safetensors or `.ptd` file as float32."""
    head = await file.read(0, min(8, file.size))
    if head[4:8] == b"FT01":
        found = {}
        with naming(file):
            entries = await read_ptd(file)
        for key, entry in entries.items():
            layout = entry.layout
            if layout is None or layout.scalar_type not in _DTYPES:
                raise UnsupportedError(f"{file.name}: {key!r} is not a tensor of floats")
            if layout.dim_order != tuple(range(len(layout.sizes))):
                raise UnsupportedError(f"{file.name}: {key!r} does not lie row after row")
            found[key] = (_DTYPES[layout.scalar_type], layout.sizes, entry.span)
    else:
        stored = await read_safetensors(file)
        found = {key: (one.dtype, one.shape, one.span) for key, one in stored.items()}
    return {
        key: _decoded(await file.read(span.offset, span.size), dtype, shape)
        for key, (dtype, shape, span) in found.items()
    }


def _decoded(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    count = math.prod(shape)
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2", count).astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    return np.frombuffer(data, kinds[dtype], count).astype(np.float32).reshape(shape)


def _factors(arrays: Mapping[str, np.ndarray], scales: _Scales, name: str) -> dict[str, Factor]:
    """Return the pairs of matrices, with the scale in the second."""
    sides: dict[str, dict[str, np.ndarray]] = {}
    for key, array in arrays.items():
        match = _NAME.fullmatch(key)
        if match is None:
            raise UnsupportedError(
                f"{name}: {key!r} is not a matrix of a LoRA (LAYER.lora_A.weight or lora_B); only "
                "plain LoRA of linear layers is supported"
            )
        side = match["side"].upper()
        if side in sides.setdefault(match["layer"], {}):
            raise FormatError(f"{name}: there are two matrices {side} of {match['layer']!r}", 0)
        sides[match["layer"]][side] = array
    if not sides:
        raise FormatError(f"{name} has no tensors", 0)
    factors = {}
    for layer, pair in sides.items():
        if pair.keys() != {"A", "B"}:
            raise FormatError(f"{name}: {layer!r} has only one of two matrices", 0)
        a, b = pair["A"], pair["B"]
        if a.ndim != 2 or b.ndim != 2 or a.shape[0] != b.shape[1] or not len(a):
            raise FormatError(
                f"{name}: the matrices of {layer!r} are {list(a.shape)} and {list(b.shape)}, which "
                "do not fit each other",
                0,
            )
        scaled = b * np.float32(scales.of(layer, len(a)))
        if not (np.isfinite(a).all() and np.isfinite(scaled).all()):
            raise InputError(f"{name}: the matrices of {layer!r} have values that are not finite")
        factors[layer] = Factor(a, scaled)
    return factors
