"""Opening any program, with options of language models or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import webpte
from support.graphs.graphs import wait
from support.harness.api_models import copy_tiny_model
from support.page.chats import Q4
from webpte.errors import InputError
from webpte.llm.open_program import open_program


@pytest.mark.parametrize(
    ("options", "told"),
    [({"max_context": 0}, "at least one token"), ({"kv_cache": ""}, "'f32', 'f16', 'int8'")],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        wait(open_program(Q4, device="numpy", **options))


def test_options_that_are_not_given_count_not() -> None:
    async def run() -> None:
        absent = {"max_context": None, "kv_cache": None, "lora": None, "training": False}
        async with await open_program(Q4, device="numpy", **absent) as program:
            assert "forward" in program.methods

    wait(run())


def test_options_of_all_programs_reach_models_and_tasks(tmp_path: Path) -> None:
    integers = webpte.Options(int8_products=True)

    async def run() -> None:
        folder = copy_tiny_model(tmp_path / "tiny")
        how: dict[str, Any] = {"device": "numpy", "kv_cache": "int8", "options": integers}
        async with await webpte.llm.load(Q4, **how) as program:
            assert program.options == integers
        async with await webpte.tasks.open("text-generation", folder / Q4.name, **how) as task:
            assert task.program.options == integers

    wait(run())
