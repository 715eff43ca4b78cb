"""Opening any program, with options of language models or without."""

from __future__ import annotations

from typing import Any

import pytest

from support.graphs.graphs import wait
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
