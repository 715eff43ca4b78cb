"""Reasons why kernels without a delegates' operator run on the host, even with a GPU."""

from __future__ import annotations

from webpte.engine.portable.registry import PortableKernel

NUMBERS = "numbers, not tensors: the host needs them to know sizes"
CREATED = "at load, where constants determine it, as they mostly do"
CHANCE = "the host draws the numbers"
COUNTED = "how large its output is follows from the elements"
ORDER = "no kernel that searches"
WIDE = "no kernel; sums in float64, which a GPU has not"
FEW = "no kernel yet"
SCALED = "no kernel; rounds by scales in float64, which a GPU has not"
SEPARATE = "as itself; in a program it is update_cache, twice, and custom_sdpa, on the GPU"
TRAINING = "no kernel; gradients outside of delegates are rare"

# Names without the namespace, up to the overload; or all kernels of a namespace.
_REASONS: dict[str, tuple[str, ...]] = {
    NUMBERS: (
        *("executorch_prim::", "_local_scalar_dense", "sym_numel", "sym_size", "sym_stride"),
    ),
    CREATED: (
        *("arange", "empty", "empty_like", "empty_permuted", "_empty_dim_order", "eye", "fill"),
        *("full", "linspace", "ones", "ones_like", "scalar_tensor", "zeros"),
        *("tril_indices", "triu_indices", "zeros_like"),
    ),
    CHANCE: ("native_dropout", "rand", "randn"),
    COUNTED: ("masked_select", "nonzero", "repeat_interleave"),
    ORDER: ("bucketize", "searchsorted"),
    WIDE: (
        *("_cdist_forward", "_native_batch_norm_legit", "_pdist_forward"),
        *("_upsample_bilinear2d_aa", "addbmm", "addmv", "baddbmm", "dist", "dot"),
        *("linalg_vector_norm", "logcumsumexp", "logsumexp", "matmul", "mse_loss", "mv", "norm"),
        "prod",
    ),
    SCALED: ("quantized_decomposed::", "round"),
    SEPARATE: ("sdpa_with_kv_cache",),
    TRAINING: ("convolution_backward", "max_pool2d_with_indices_backward"),
}
_BY_NAME = {name: reason for reason, names in _REASONS.items() for name in names}


def why_hosted(kernel: PortableKernel) -> str:
    """Return the reason why a kernel without an operator stays on the host."""
    space, _, rest = kernel.name.partition("::")
    return _BY_NAME.get(f"{space}::") or _BY_NAME.get(rest.partition(".")[0], FEW)


def reasons() -> dict[str, str]:
    """Return the reasons by kernel name, or by namespace."""
    return dict(_BY_NAME)
