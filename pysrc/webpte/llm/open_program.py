"""Opens any program; by `webpte.llm.load` only where options of language models are given."""

from __future__ import annotations

from typing import Any

from webpte.loading import load as load_program
from webpte.program import Program

OPTIONS = frozenset({"max_context", "kv_cache", "lora", "training"})


async def open_program(source: Any, **loading: Any) -> Program:
    """Load a program with the options of `webpte.load` and `webpte.llm.load`.

    Without options of language models (None and False count as absent), their modules are not
    imported.
    """
    given = {
        name: value
        for name, value in loading.items()
        if name not in OPTIONS or not (value is None or value is False)  # 0 is refused, not absent
    }
    if not given.keys() & OPTIONS:
        return await load_program(source, **given)
    from webpte.llm.load_model import load

    return await load(source, **given)
