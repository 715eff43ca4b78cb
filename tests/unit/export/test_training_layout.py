"""The flat vector of a LoRA: the trainer reads the layout that the exporter writes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait
from webpte.engine.call.info import MethodInfo, ScalarInfo, TensorInfo
from webpte.llm.lora.files import read_lora
from webpte.training import lora_form, lora_rank
from webpte.training.lora_files import flat_vector, saved_lora
from webpte.training.lora_form import FACTS, LEARN, LoraForm
from webpte_export.errors import ExportError
from webpte_export.llm.source import Shape
from webpte_export.training.adapters import LoraOptions, facts, layout

SHAPE = Shape(
    architecture="llama",
    layers=2,
    vocab_size=50,
    max_context=40,
    dim=12,
    heads=4,
    kv_heads=2,
    head_dim=6,
    hidden_dim=20,
    norm_eps=1e-5,
    rope_theta=10000.0,
)
OPTIONS = LoraOptions(rank=3, alpha=9, targets=("v_proj", "q_proj", "down_proj"), batch=2, length=8)


def method(name: str, inputs: tuple[Any, ...], outputs: tuple[Any, ...]) -> MethodInfo:
    return MethodInfo(name, inputs, outputs, {}, {}, {}, (), is_constant=not inputs)


def form_of(options: LoraOptions = OPTIONS, changes: dict[str, Any] | None = None) -> LoraForm:
    """Return the form that the trainer reads from the exporter's layout and facts."""
    adapters = layout(SHAPE, options)
    said = json.loads(facts(adapters, options)[FACTS]) | (changes or {})

    def tensor(*shape: int) -> TensorInfo:
        return TensorInfo("x", shape=shape, dtype="float32", dynamic=False)

    rows, state = tensor(options.batch, options.length), [tensor(adapters[-1].end)] * 3
    text = ScalarInfo("facts", "str", json.dumps(said))
    learn = method(LEARN, (rows, rows, tensor(4), *state), (tensor(1), *state))
    told = method(FACTS, (), (text,))
    methods = {LEARN: learn, FACTS: told}
    assert lora_rank(methods) == lora_rank({FACTS: told}) == said["rank"]
    return lora_form(methods)


def test_the_trainer_reads_what_the_exporter_writes() -> None:
    form, adapters = form_of(), layout(SHAPE, OPTIONS)
    assert (form.batch, form.length, form.rank, form.alpha) == (2, 8, 3, 9)
    assert len(form.layers) == len(adapters) == 6
    for layer, adapter in zip(form.layers, adapters, strict=True):
        assert layer.name == adapter.name
        assert (layer.start, layer.middle, layer.end) == (
            adapter.start,
            adapter.middle,
            adapter.end,
        )
        assert layer.pairs == adapter.pairs
    assert [one.pairs for one in form.layers[:3]] == [(4, 6), None, None]


def test_files_hold_the_matrices_in_the_order_of_transformers() -> None:
    form = form_of()
    w = np.arange(form.count, dtype=np.float32)
    a, b = form.layers[0].matrices(w)
    whole = w[form.layers[0].middle : form.layers[0].end].reshape(24, 3)
    # A pair's two rows, neighbours in the program, are half a head apart.
    np.testing.assert_array_equal(b[[0, 3, 1, 4]], whole[[0, 1, 2, 3]])
    np.testing.assert_array_equal(a.ravel(), w[: form.layers[0].middle])
    saved = saved_lora(form, w)
    assert saved.config["target_modules"] == ["down_proj", "q_proj", "v_proj"]
    read = wait(read_lora(saved.weights, config=saved.config, name="mine"))
    np.testing.assert_allclose(flat_vector(form, read), w, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rank": 0}, "rank is 0"),
        ({"alpha": 0.0}, "alpha is 0"),
        ({"length": 41}, "length is 41"),
        ({"length": 1}, "length is 1"),
        ({"batch": 9999}, "batch is 9999"),
        ({"targets": ()}, "'no layer' cannot be trained"),
        ({"targets": ("q_proj", "lm_head")}, "'lm_head' cannot be trained; layers are q_proj"),
    ],
)
def test_options_that_are_not_possible(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ExportError, match=told):
        LoraOptions(**{"length": 8, **changes}).check(SHAPE)
    OPTIONS.check(SHAPE)
