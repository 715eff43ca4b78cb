"""docs/kernels.md is what the registry says. To write it anew, run this file."""

from __future__ import annotations

from pathlib import Path

from webpte.kernels import Kernel, kernel_names, lookup_kernel

DOCUMENT = Path(__file__).parents[3] / "docs" / "kernels.md"

INTRODUCTION = """\
# Kernels

Operators that no delegate took run in NumPy, on the host. These are the ones there are; a program
that needs another one is refused when it is loaded, with the names of all that are missing.
Arguments are those of PyTorch's schema, without the outputs. A note in code style names the
operator of the delegates whose NumPy reference the kernel runs.

On a GPU, a call runs there instead where an operator of the delegates means the same ("GPU" below),
its tensors are of one type (float32 or float16; whatever has no 64 bits, if elements only move; not
counting indices, masks, and tables of small numbers), and it multiplies matrices, or takes what a
delegate gives and hands on what a delegate or the caller takes, or takes less than it gives to
delegates: `program.report` says which calls do. Calls that constants determine run once, at load.
Delegates, with such calls between them, are then one graph: a single submission, as
`stats.submissions` tells.

Mixed element types follow PyTorch's rules, half floats are computed in float32, and a result goes
into an output of its own kind (bool, integer, float) or a higher one. An output is of the size that
the file says, or at most of that size where the file calls it dynamic.
"""


def text() -> str:
    rows = [row(kernel) for kernel in map(lookup_kernel, kernel_names()) if kernel]
    on_gpu = sum(row.endswith("| GPU |") for row in rows)
    head = ["| kernel | arguments | notes | |", "|---|---|---|---|"]
    count = f"{len(rows)} kernels, {on_gpu} of them with an operator that a GPU runs:\n"
    return "\n".join([INTRODUCTION, count, *head, *rows]) + "\n"


def row(kernel: Kernel) -> str:
    notes = [kernel.notes] if kernel.notes else []
    if kernel.list_output:
        notes.append("gives a list")
    elif kernel.outputs > 1:
        notes.append(f"gives {kernel.outputs}")
    where = "GPU" if kernel.op else ""
    return f"| `{kernel.name}` | {', '.join(kernel.parameters)} | {'; '.join(notes)} | {where} |"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == text()


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
