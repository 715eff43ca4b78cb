"""LoRA files of others: two matrices for each layer with their scale, or an error that says why."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from support.write.pte_writer import write_ptd
from support.write.weight_files import safetensors_bytes
from webpte.errors import FormatError, InputError, SourceError, UnsupportedError, WebpteError
from webpte.llm.lora.files import read_lora
from webpte.llm.lora.slots import LinearModule

STEM = "base_model.model.model.layers.0.self_attn"
A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(8, dtype=np.float32).reshape(4, 2)
PAIR = {f"{STEM}.q_proj.lora_A.weight": A, f"{STEM}.q_proj.lora_B.weight": B}
CONFIG: dict[str, Any] = {"peft_type": "LORA", "r": 2, "lora_alpha": 6}
LAYER = "model.layers.0.self_attn.q_proj"


def read(arrays: dict[str, np.ndarray] = PAIR, **changes: Any) -> Any:
    data = safetensors_bytes(arrays)
    return wait(read_lora(data, config={**CONFIG, **changes}, name="mine"))


def test_the_scale_is_in_the_second_matrix() -> None:
    lora = read()
    assert lora.rank == 2
    assert list(lora.factors) == [LAYER]
    np.testing.assert_array_equal(lora.factors[LAYER].a, A)
    np.testing.assert_array_equal(lora.factors[LAYER].b, B * 3)


@pytest.mark.parametrize(
    ("changes", "scale"),
    [
        ({"use_rslora": True}, 6 / math.sqrt(2)),
        ({"alpha_pattern": {"q_proj": 10}}, 5),
        ({"alpha_pattern": {"v_proj": 10}}, 3),
        ({"alpha_pattern": {"proj": 10}}, 3),
        ({"alpha_pattern": {"layers.0.self_attn.q_proj": 10, "q_proj": 12}}, 5),
        ({"alpha_pattern": {"^model.layers.0.self_attn.q_proj": 10}}, 5),
        ({"alpha_pattern": {"^q_proj": 10}}, 3),
        ({"r": 8, "rank_pattern": {"q_proj": 2}}, 3),
        ({"r": 8, "rank_pattern": {"q_proj": 2}, "use_rslora": True}, 6 / math.sqrt(2)),
        ({"modules_to_save": None, "bias": "none", "use_dora": False, "r": None}, 3),
    ],
)
def test_settings_of_the_scale(changes: dict[str, Any], scale: float) -> None:
    found = read(**changes).factors[LAYER].b
    np.testing.assert_allclose(found, B * np.float32(scale), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float64", "uint16"])
def test_other_floats(dtype: str) -> None:
    arrays = {
        name: (one.view(np.uint32) >> 16).astype(np.uint16)
        if dtype == "uint16"
        else one.astype(dtype)
        for name, one in PAIR.items()
    }
    np.testing.assert_array_equal(read(arrays).factors[LAYER].b, B * 3)


def test_a_damaged_ptd_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "lora.ptd"
    path.write_bytes(write_ptd(PAIR)[:-4])
    with pytest.raises(FormatError, match=r"^lora\.ptd: .*truncated"):
        wait(read_lora(path, alpha=6))


def test_a_ptd_file(tmp_path: Path) -> None:
    path = tmp_path / "lora.ptd"
    path.write_bytes(write_ptd(PAIR))
    np.testing.assert_array_equal(wait(read_lora(path, alpha=6)).factors[LAYER].b, B * 3)
    with pytest.raises(SourceError, match=r"needs its adapter_config\.json"):
        wait(read_lora(path))
    (tmp_path / "adapter_config.json").write_text(json.dumps(CONFIG))
    lora = wait(read_lora(path))
    assert lora.name == "lora.ptd"
    np.testing.assert_array_equal(lora.factors[LAYER].b, B * 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"use_dora": True},
        {"bias": "lora_only"},
        {"lora_bias": True},
        {"modules_to_save": ["lm_head"]},
        {"layer_replication": [[0, 4]]},
        {"trainable_token_indices": [3]},
        {"target_parameters": ["experts.down"]},
        {"init_lora_weights": "pissa_niter_4"},
        {"init_lora_weights": "olora"},
        {"peft_type": "IA3"},
        {"rank_pattern": {"(q|k)_proj": 2}},
    ],
)
def test_what_is_more_than_lora_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        read(**changes)


NAN = B.copy()
NAN[1, 1] = np.nan
WRONG: list[tuple[dict[str, np.ndarray], dict[str, Any], type[WebpteError], str]] = [
    ({}, {}, FormatError, "mine has no tensors"),
    ({f"{STEM}.q_proj.lora_A.weight": A}, {}, FormatError, "has only one of two matrices"),
    ({**PAIR, f"{STEM}.q_proj.lora_a.weight": A}, {}, FormatError, "two matrices A"),
    ({**PAIR, f"{STEM}.q_proj.lora_magnitude_vector": A}, {}, UnsupportedError, "not a matrix"),
    ({**PAIR, "base_model.model.lm_head.weight": A}, {}, UnsupportedError, "not a matrix of a"),
    ({**PAIR, f"{STEM}.q_proj.lora_B.weight": B.T}, {}, FormatError, "do not fit each other"),
    ({**PAIR, f"{STEM}.q_proj.lora_B.weight": NAN}, {}, InputError, "not finite"),
    (PAIR, {"r": 4}, InputError, "is 4, but its weights have 2"),
    (PAIR, {"rank_pattern": {"q_proj": 3}}, InputError, "is 3, but its weights have 2"),
    (PAIR, {"lora_alpha": "6"}, InputError, "lora_alpha must be a number"),
    (PAIR, {"lora_alpha": None}, InputError, "lacks 'lora_alpha'"),
    (PAIR, {"use_rslora": 1}, InputError, "use_rslora must be true or false"),
]


@pytest.mark.parametrize(("arrays", "changes", "kind", "says"), WRONG)
def test_wrong_files_say_what_is_wrong(
    arrays: dict[str, np.ndarray], changes: dict[str, Any], kind: type[WebpteError], says: str
) -> None:
    with pytest.raises(kind, match=says):
        read(arrays, **changes)


@pytest.mark.parametrize("cut", [0, 5, 8, 40, -1])
def test_files_that_are_cut_off(cut: int) -> None:
    with pytest.raises(WebpteError):
        wait(read_lora(safetensors_bytes(PAIR)[:cut], alpha=1))
    with pytest.raises(WebpteError):
        wait(read_lora(write_ptd(PAIR)[:cut], alpha=1))


def test_bytes_need_a_scale() -> None:
    data = safetensors_bytes(PAIR)
    with pytest.raises(InputError, match=r"do not tell its scale.*config=.*alpha="):
        wait(read_lora(data))
    with pytest.raises(InputError, match="not both"):
        wait(read_lora(data, alpha=1, config=CONFIG))
    with pytest.raises(InputError, match="is not a number"):
        wait(read_lora(data, alpha=math.nan))


def test_rows_of_rotated_heads_are_paired() -> None:
    rows = np.arange(12, dtype=np.float32)[:, None]
    moved = LinearModule("q", "", (2, 6)).matrix(rows).ravel().tolist()
    assert moved == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


def test_parts_of_a_layer_have_their_rows() -> None:
    rows = np.arange(12, dtype=np.float32)[:, None]
    part = LinearModule("qkv", "", rows=(2, 1, 3), scale=2)
    assert part.matrix(rows).ravel().tolist() == [2, 4, 14, 16]
