"""Reading ahead: spare workgroups of a kernel bring weights of later kernels into the GPU's cache.

A step of decoding is a chain of dispatches that wait for each other. Attention and the merge of
its shares hardly read memory, and each GEMV ends before the next one begins to read. The kernels
in `READERS` have a variant, `NAME_ahead`, which binds some weights of the next GEMVs, and whose
additional workgroups read them for nothing but the cache. Results stay the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from webpte.engine.ops.core.records import MAX_WORKGROUPS, Binding, Dispatch

SUFFIX = "_ahead"
# By kernel: how many buffers its variant reads ahead.
READERS = {
    "attention_flash_split_rope": 2,
    "attention_flash_reduce": 6,
    "gemv_q4": 2,
    "gemv_q4_gated": 2,
}
# By GEMV kernel: where weights and scales are among its bindings.
WEIGHTS = {
    "gemv_q4": (2, 3),
    "gemv_q4_gated": (2, 3, 4, 5),
    "gemv_q4_qkv": (2, 3, 4, 5, 6, 7),
}


Readings = Mapping[tuple[str, str], tuple[int, ...]]


def weights_behind(work: Sequence[Dispatch | None], index: int, most: int) -> list[Binding]:
    """Return up to `most` bindings of weights of the GEMVs behind a dispatch, in order."""
    found: list[Binding] = []
    for later in work[index + 1 :]:
        if later is None or len(found) >= most:
            break
        found += [later.bindings[place] for place in WEIGHTS.get(later.kernel, ())]
    return found[:most]


def next_gemv(work: Sequence[Dispatch | None], index: int) -> str:
    """Return the kernel of the GEMV behind a dispatch; "" without one."""
    later = (d.kernel for d in work[index + 1 :] if d is not None and d.kernel in WEIGHTS)
    return next(later, "")


def read_ahead(
    work: Sequence[Dispatch | None], readings: Readings, workgroups: int
) -> list[Dispatch | None]:
    """Return the work of a step with kernels that read ahead; None stands for a call on the host.

    `readings` has the places among the buffers of `weights_behind`, by kernel and next GEMV.
    """
    found = list(work)
    for index, dispatch in enumerate(work):
        if dispatch is None or dispatch.kernel not in READERS or dispatch.grid[1:] != (1, 1):
            continue
        places = readings.get((dispatch.kernel, next_gemv(work, index)), ())
        behind = weights_behind(work, index, max(places, default=-1) + 1)
        given = [behind[place] for place in places if place < len(behind)]
        own = dispatch.grid[0]
        if given and own + workgroups <= MAX_WORKGROUPS:
            rest = (None,) * (READERS[dispatch.kernel] - len(given))
            found[index] = replace(
                dispatch,
                kernel=dispatch.kernel + SUFFIX,
                bindings=(*dispatch.bindings, *given, *rest),
                grid=(own + workgroups, 1, 1),
            )
    return found


def merged_in_gemv(work: Sequence[tuple[object, Dispatch | None]]) -> list[tuple[object, Dispatch | None]]:
    """Return the work with GEMVs that add up attention's shares themselves."""
    found = list(work)
    for index in range(len(work) - 2, -1, -1):
        merge, gemv = found[index][1], found[index + 1][1]
        if merge is None or gemv is None or merge.kernel != "attention_flash_reduce" or gemv.kernel != "gemv_q4":
            continue
        types, size = dict(merge.types), dict(merge.overrides)["VALUE_HEAD"]
        x, gain, *rest = gemv.bindings
        if dict(gemv.types).get("ROW") != "floats":
            continue
        kept = tuple((n, t) for n, t in gemv.types if n != "ROW")
        more = ("SPLITS", types["SPLITS"]), ("HEAD_QUADS", str(int(size) // 4))
        shared = replace(gemv, kernel="gemv_q4_shares", bindings=(*merge.bindings[:2], gain, *rest), types=(*kept, *more))
        found[index : index + 2] = [(found[index + 1][0], shared)]
    return found
