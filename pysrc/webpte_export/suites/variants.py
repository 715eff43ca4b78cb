"""Variants of the optional features, each the opposite of the default: `verify --options`.

A variant is requested by its name, several at once with `+` between them:

    fuse        without fusion
    f16         f16 stored and computed as float32
    subgroup_matrices  GEMMs with subgroup matrices, or without them if they are the default
    plain       the kernels of a software adapter on a GPU, and a GPU's on a software adapter
    tuning      the default tile configs, without measured ones
    phone       the limits and features of a phone's GPU
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import webpte
from webpte import DeviceInfo
from webpte.engine.call.options import AS_SUITS, DeveloperOptions, applied_to
from webpte.engine.gpu.tuning_cache import kept_choices
from webpte.errors import DeviceError
from webpte.inspection.report.difference import Tolerance
from webpte_export.suites.suite import (
    Array,
    FetchBytes,
    RunOutputs,
    compare,
    parse_entry,
    run_entry,
)

AS_CHOSEN = "as chosen"
ALL = "all"
JOINED = "+"


@dataclass(frozen=True)
class Variant:
    """Load options with a label. `missing` is the reason if it cannot run here."""

    label: str
    options: DeveloperOptions = AS_SUITS
    missing: str = ""


def _without_fusion(_info: DeviceInfo, options: DeveloperOptions) -> Variant:
    return Variant("without fusion", replace(options, fuse=False))


def _without_f16(info: DeviceInfo, options: DeveloperOptions) -> Variant:
    missing = "" if info.has_f16 else "not there: this adapter has no shader-f16"
    return Variant("without f16", replace(options, f16=False), missing)


def _other_matrices(info: DeviceInfo, options: DeveloperOptions) -> Variant:
    """Return the variant with or without subgroup matrices, which need f16."""
    there = applied_to(options, info).has_subgroup_matrices
    other = not (info.prefers_subgroup_matrices and there)
    missing = "" if there else "not there: this adapter has no subgroup matrices of f16"
    label = f"{'with' if other else 'without'} subgroup matrices"
    return Variant(label, replace(options, subgroup_matrices=other), missing)


def _other_kernels(info: DeviceInfo, options: DeveloperOptions) -> Variant:
    other = not info.software
    label = "plain kernels" if other else "a GPU's kernels"
    return Variant(label, replace(options, plain=other))


def _without_tuning(info: DeviceInfo, options: DeveloperOptions) -> Variant:
    missing = "" if info.choices else "not there: nothing was tuned on this adapter"
    return Variant("without tuning", replace(options, tuned=False), missing)


def _as_on_a_phone(_info: DeviceInfo, options: DeveloperOptions) -> Variant:
    return Variant("as on a phone", replace(options, phone=True))


_VARIANTS: dict[str, Callable[[DeviceInfo, DeveloperOptions], Variant]] = {
    "fuse": _without_fusion,
    "f16": _without_f16,
    "subgroup_matrices": _other_matrices,
    "plain": _other_kernels,
    "tuning": _without_tuning,
    "phone": _as_on_a_phone,
}
NAMES = tuple(_VARIANTS)


def unknown_names(requested: Sequence[str]) -> list[str]:
    """Return the names that are not variants."""
    single = [name for each in requested for name in each.split(JOINED)]
    return [name for name in single if name not in (*NAMES, ALL)]


def variants_of(requested: Sequence[str], info: DeviceInfo) -> list[Variant]:
    """Return the default variant and every requested one, on a device."""
    named = [name for each in requested for name in (NAMES if each == ALL else (each,))]
    found = [_variant(name, info) for name in dict.fromkeys(named)]
    if ALL in requested and info.software and "plain" not in requested:
        slow = "left out: they can take minutes to compile here; ask for it by name: plain"
        found = [replace(one, missing=slow) if one.options.plain is False else one for one in found]
    return [Variant(AS_CHOSEN), *found]


def _variant(name: str, info: DeviceInfo) -> Variant:
    """Combine the variants of a name; missing if a variant or the combination is."""
    names, steps, options = name.split(JOINED), list[Variant](), AS_SUITS
    for each in names:
        steps.append(_VARIANTS[each](info, options))
        options = steps[-1].options
    missing = next(filter(None, (_VARIANTS[each](info, options).missing for each in names)), "")
    return Variant(", ".join(step.label for step in steps), options, missing)


async def described_variants(requested: Sequence[str], device: str) -> list[dict[str, Any]]:
    """Return the variants on a device as plain data for JSON."""
    info = (await webpte.shared_device(device)).info
    tuned = replace(info, choices=await kept_choices(info))
    return [asdict(variant) for variant in variants_of(requested, tuned)]


async def options_of(name: str, device: str) -> DeveloperOptions:
    """Return the load options of a variant; raises DeviceError if the device lacks it."""
    _, variant = await described_variants([name], device)
    if variant["missing"]:
        raise DeviceError(f"{variant['label']}: {variant['missing']}")
    return DeveloperOptions(**variant["options"])


class VariantRuns:
    """Runs of entries, the default variant first; the others are compared with it."""

    def __init__(self, fetch_bytes: FetchBytes, device: str, **how: Any) -> None:
        """Set up the runs; `how` has further arguments of `run_entry`."""
        self._fetch_bytes = fetch_bytes
        self._device = device
        self._how = how
        self._chosen = RunOutputs()
        self._entry: object = None

    async def run(self, raw: object, variant: dict[str, Any]) -> dict[str, Any]:
        """Run an entry; returns the report of `run_entry` with the variant's label and differences.

        difference     between the outputs, as a share of the tolerance; None if a run failed, or
                       integers differ
        other_kernels  whether other kernels ran than in the default variant
        """
        seen, options = RunOutputs(), DeveloperOptions(**variant["options"])
        given = {**self._how, "options": options, "seen": seen}
        report = await run_entry(raw, self._fetch_bytes, self._device, **given)
        report |= {"variant": variant["label"], "difference": None, "other_kernels": None}
        if variant["label"] == AS_CHOSEN:
            self._chosen, self._entry = seen, raw
        elif self._entry == raw and len(seen.outputs) == len(self._chosen.outputs):
            entry = parse_entry(raw)
            goldens = (file for step in entry.steps for file in step.goldens)
            rules = map(entry.tolerance, goldens)
            report["difference"] = _difference(seen.outputs, self._chosen.outputs, rules)
            report["other_kernels"] = seen.kernels != self._chosen.kernels
        return report


def _difference(
    found: Sequence[Array], chosen: Sequence[Array], rules: Iterable[Tolerance]
) -> float | None:
    outputs = zip(found, chosen, rules, strict=True)
    shares = [compare(*output).used for output in outputs]
    known = [share for share in shares if share is not None]
    return max(known, default=0.0) if len(known) == len(shares) else None
