"""Options of `load` that change how a program runs on a device, and never its results.

Results are the same with all options, up to the order of sums and the width of floats.
docs/inside/adapters.md lists how far they may differ, and `serve.py verify SUITE --options`
compares them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

from webpte.engine.gpu.device_info import (
    BINDING_LIMIT,
    SHADER_F16,
    DeviceInfo,
    like_a_phone,
    with_limits,
)


@dataclass(frozen=True)
class Options:
    """Options of `load`.

    fuse           let a kernel do the work of several calls if possible
    tuned          use the tile configs that `Program.tune` has measured as fastest on this adapter
    half_products  where GEMMs of many rows use subgroup matrices, multiply numbers rounded to f16
                   (11 bits) and add up in float32: nearly twice as fast, with an error of 2^-11 of
                   each product at most instead of 2^-22
    int8_products  where GEMMs of many rows have weights of 4 or 8 bits, round each 32 values of a
                   row to int8, by their largest, and multiply integers: 1.6 times as fast on GPUs
                   with packed dot products, with an error of 1/254 of that largest at most.
                   Programs that round their rows themselves (8da4w) multiply integers anyway
    """

    fuse: bool = True
    tuned: bool = True
    half_products: bool = False
    int8_products: bool = False


@dataclass(frozen=True)
class DeveloperOptions(Options):
    """Options for comparing kernels and finding faults. None means: as suits the adapter.

    f16                store f16 as such if shaders have f16, not as float32
    subgroup_matrices  GEMMs of many rows with f16 subgroup matrices, if shaders have them
    plain              use the plain kernels that software adapters get, which compile quickly
    phone              use no more than the limits and features of a phone's GPU
    binding_bytes      the most bytes of a buffer, if the GPU's own limit is not less; no GPU has
                       a limit so low that the weights of a small model would be bound in parts
    """

    f16: bool = True
    subgroup_matrices: bool | None = None
    plain: bool | None = None
    phone: bool = False
    binding_bytes: int | None = None


AS_SUITS = DeveloperOptions()
NUMPY = "NumPy"
USUAL = "as suits the adapter"  # the label of a program that was opened without options


@dataclass(frozen=True)
class SaferVariant:
    """A way to run a program that needs less of the GPU; without options, on NumPy."""

    label: str
    options: DeveloperOptions | None = None


def safer_variant(options: Options, info: DeviceInfo) -> SaferVariant | None:
    """Return the next safer way to run a program; None after NumPy, the last way.

    Without subgroup matrices, then without f16 (which subgroup matrices need, too), then with plain
    kernels, then on NumPy.
    """
    if info.kind == "numpy":
        return None
    now = _as_developer(options)
    seen = applied_to(now, info)
    if seen.target.subgroup_matrices:
        return SaferVariant("without subgroup matrices", replace(now, subgroup_matrices=False))
    if seen.has_f16:
        return SaferVariant("without f16", replace(now, f16=False))
    if not seen.software:
        return SaferVariant("with plain kernels", replace(now, plain=True))
    return SaferVariant(f"on {NUMPY}")


def variant_label(options: Options, info: DeviceInfo) -> str:
    """Return in a few words how a program runs."""
    if info.kind == "numpy":
        return NUMPY
    now, found = _as_developer(options), list[str]()
    if info.has_f16 and not now.f16:
        found.append("without f16")
    if info.has_subgroup_matrices and now.subgroup_matrices is not None:
        found.append(f"{'with' if now.subgroup_matrices else 'without'} subgroup matrices")
    if applied_to(now, info).target.half_products:
        found.append("products of f16")
    if applied_to(now, info).target.int8_products:
        found.append("products of int8")
    if now.plain is not None and now.plain is not info.software:
        found.append("with plain kernels" if now.plain else "with a GPU's kernels")
    found += [text for text, off in (("without fusion", not now.fuse),) if off]
    return ", ".join(found) or USUAL


def _as_developer(options: Options) -> DeveloperOptions:
    if isinstance(options, DeveloperOptions):
        return options
    return DeveloperOptions(**asdict(options))


def applied_to(options: Options, info: DeviceInfo) -> DeviceInfo:
    """Return the device info that programs with these options see."""
    half, int8 = options.half_products, options.int8_products
    info = replace(info, half_products=half, int8_products=int8)
    if not isinstance(options, DeveloperOptions):
        return info
    features = tuple(name for name in info.features if options.f16 or name != SHADER_F16)
    matrices, plain = options.subgroup_matrices, options.plain
    found = replace(
        info,
        features=features,
        prefers_subgroup_matrices=info.prefers_subgroup_matrices if matrices is None else matrices,
        software=info.software if plain is None else plain,
    )
    if options.phone:
        found = like_a_phone(found)
    if options.binding_bytes is not None:
        found = with_limits(found, {BINDING_LIMIT: options.binding_bytes})
    return found
