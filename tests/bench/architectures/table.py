"""docs/reference/architectures.md, from the results: one line per architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_HEAD = """\
# Architectures

{count} of {total} architectures, small and with random weights, exported by `webpte_export.export` (ExecuTorch's Vulkan
partitioner) and checked against PyTorch on {device}: {passed} give PyTorch's results, {failed} do not run or differ, and
{refused} are not exported.{others} This page is written by

```sh
PYTHONPATH=pysrc:tests python -m bench.architectures --doc docs/reference/architectures.md
```

in the export environment (see [exporting.md](exporting.md)); `serve.py test` does not run it. The rows are tables in
`tests/bench/architectures/`.

- **Delegates**: parts that the partitioner split the model into. The runtime joins them where it can: **submissions** is how often
  one call submits work to the GPU; 1 is the best.
- **Outside**: kernels outside of delegates. *GPU*: the runtime offloads them to the GPU or folds them at load. *Host*: NumPy runs them.
- **Error**: the largest absolute difference to PyTorch, over all outputs and calls.
"""

Result = Mapping[str, Any]


def render(groups: Mapping[str, Sequence[str]], results: Mapping[str, Result], device: str) -> str:
    """Render the page; `groups` are names in order, `results` the results of those that ran."""
    known = [results[name] for names in groups.values() for name in names if name in results]
    total = sum(map(len, groups.values()))
    refused = [row for row in known if row.get("refused")]
    passed = [row for row in known if row.get("passed")]
    lines = [
        _HEAD.format(
            count=len(known),
            total=total,
            passed=len(passed),
            failed=len(known) - len(passed) - len(refused),
            refused=len(refused),
            others=" The others have not been run yet." if len(known) < total else "",
            device="NumPy" if device == "numpy" else device,
        )
    ]
    for title, names in groups.items():
        rows = [_row(name, results[name]) for name in names if name in results]
        if rows:
            lines += [f"## {title}", "", *_TABLE, *rows, ""]
    return "\n".join(lines)


_TABLE = (
    "| architecture | delegates | outside: GPU | outside: host | submissions | error |",
    "|---|---|---|---|---|---|",
)


def _row(name: str, row: Result) -> str:
    if row.get("refused"):
        return f"| {name} | – | | | | not exported: {_short(row['refused'])} |"
    offloaded, names = _outside(row)
    error = "" if row["max_abs"] is None else f"{row['max_abs']:.1e}"
    if not row["passed"]:
        error = f"**failed** {error} {_short(row['problem'] or '')}".rstrip()
    submissions = "" if row["submissions"] is None else row["submissions"]
    return (
        f"| {name} | {row['delegates']} | {offloaded or ''} | {names} | {submissions} | {error} |"
    )


_FAMILY_HEAD = """
## Language models with a cache

The library's models for causal language modelling, exported as `serve.py export FOLDER` does: with a cache in buffers, for texts of any
length up to the cache's. `webpte.llm` generates 16 tokens on NumPy from a prompt of 11; **tokens** tells whether they are those that
PyTorch computes from the whole text at each step, without any cache. {passed} of {count} families give the same.{others}

- **Tokens per call** is the most that a prefill call takes here. State space models and linear attention take 1: their state can only go
  from one token to the next.
- **Submissions** is how often one decode step submits work to the GPU.

| family | has | delegates | outside: GPU | outside: host | tokens per call | submissions | tokens |
|---|---|---|---|---|---|---|---|
"""


def family_key(name: str) -> str:
    """Return the name of a family's result, beside those of other tables."""
    return f"llm:{name}"


def render_families(names: Sequence[str], results: Mapping[str, Result]) -> str:
    """Render the table of language models with a cache."""
    known = {name: results[family_key(name)] for name in names if family_key(name) in results}
    if not known:
        return ""
    passed = sum(bool(row.get("same")) for row in known.values())
    left = len(names) - len(known)
    others = (
        f"\n{left} more have not been exported yet: only their decoders are compared, in PyTorch."
    )
    head = _FAMILY_HEAD.format(passed=passed, count=len(known), others=others if left else "")
    return head + "".join(f"{_family(name, row)}\n" for name, row in known.items())


def _family(name: str, row: Result) -> str:
    if row.get("refused"):
        return f"| {name} | | – | | | | | not exported: {_short(row['refused'])} |"
    offloaded, names = _outside(row)
    verdict = "PyTorch's" if row["same"] else "**others**"
    if row["problem"]:
        verdict += f", {_short(row['problem'])}"
    return (
        f"| {name} | {row['note']} | {row['delegates']} | {offloaded or ''} | {names} "
        f"| {row['chunk']} | {row['per_token']} | {verdict} |"
    )


def _outside(row: Result) -> tuple[int, str]:
    """Return the number of kernels that the runtime offloads, and those on the host in words."""
    host = [op for op in row["host_ops"] if op["where"] == "host"]
    offloaded = sum(op["count"] for op in row["host_ops"]) - sum(op["count"] for op in host)
    return offloaded, ", ".join(f"{_kernel(op['op'])} ×{op['count']}" for op in host)


def _kernel(name: str) -> str:
    return name.removeprefix("aten::")


def _short(text: str, most: int = 120) -> str:
    line = " ".join(re.sub(r" at 0x[0-9a-f]+", "", text).replace("|", "/").split())
    return line if len(line) <= most else line[:most] + "…"
