"""docs/reference/kernels.md matches the registry. To write it again, run this file."""

from __future__ import annotations

from pathlib import Path

from webpte.engine.portable import PortableKernel, kernel_names, lookup_kernel, why_hosted
from webpte.engine.portable.hosted import reasons

DOCUMENT = Path(__file__).parents[4] / "docs/reference/kernels.md"

INTRODUCTION = """\
# Kernels

Operators that no delegate took run in NumPy, on the host. These are the ones there are; a program
that needs another one is refused when it is loaded, with the names of all that are missing.
Arguments are those of PyTorch's schema, without the outputs. A note in code style names the
operator of the delegates whose NumPy reference the kernel runs.

On a GPU, a call runs there instead where an operator of the delegates means the same ("GPU" below;
for all others, why not), its tensors are of one type (float32, float16 or bfloat16;
whatever has no 64 bits, if elements only move; not counting indices, masks, tables of small
numbers, and bytes that have scales), and

- all calls of the method can run there,
- or it multiplies matrices, or takes what a delegate gives and hands on what a delegate or the
  caller takes, or takes no more than it gives to delegates.

`program.report` says which calls do, and `why` in `program.graph()` what keeps the others. Calls
that constants determine run once, at load. Delegates, with such calls between them, are then one
graph: a single submission, as `stats.submissions` tells.

Buffers that a method writes back (`copy_`, `index_put_`, `update_cache`) stay on the GPU where all
that touches them runs there, in one graph, and no other method shares them. An input that is
written to is an output where the file says so; the caller's array stays as it is.

64 bits stay on the host. A GPU has 32: sums and products of float64 would come out rounded, and an
int64 beyond 32 bits not at all. Exceptions: indices, as none of a tensor's is so large; int64 (and
int32) where the ranges of integers, of places, constants, comparisons and what is computed of them,
prove that 32 bits are enough; and casts between float64 and float32, which lose on the GPU what
they lose on the host and no more.
Other casts run there if the new type holds all that the old one does: of bool, int8 and uint8 to
float32, float16 and int32, of float16 and bfloat16 to float32; and casts of floats of at most 32
bits to float16 and bfloat16, which a kernel rounds to.

Mixed element types follow PyTorch's rules, f16 and bfloat16 are computed in float32, and a result
goes into an output of its own kind (bool, integer, float) or a higher one. An output is of the
size that the file says, or at most of that size where the file calls it dynamic.
"""


def text() -> str:
    rows = [row(kernel) for kernel in map(lookup_kernel, kernel_names()) if kernel]
    on_gpu = sum(row.endswith("| GPU |") for row in rows)
    head = ["| kernel | arguments | notes | where |", "|---|---|---|---|"]
    count = f"{len(rows)} kernels, {on_gpu} of them with an operator that a GPU runs:\n"
    return "\n".join([INTRODUCTION, count, *head, *rows]) + "\n"


def row(kernel: PortableKernel) -> str:
    notes = [kernel.notes] if kernel.notes else []
    if kernel.list_output:
        notes.append("gives a list")
    elif kernel.outputs > 1:
        notes.append(f"gives {kernel.outputs}")
    where = "GPU" if kernel.op else f"host: {why_hosted(kernel)}"
    return f"| `{kernel.name}` | {', '.join(kernel.parameters)} | {'; '.join(notes)} | {where} |"


def test_the_document_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == text()


def test_every_reason_is_one_of_a_kernel_on_the_host() -> None:
    hosted = [kernel for kernel in map(lookup_kernel, kernel_names()) if kernel and not kernel.op]
    names = {kernel.name.partition("::")[2].partition(".")[0] for kernel in hosted}
    spaces = {kernel.name.partition("::")[0] + "::" for kernel in hosted}
    assert reasons().keys() <= names | spaces


if __name__ == "__main__":
    DOCUMENT.write_text(text(), encoding="utf-8")
