"""Refuses files that this runtime cannot run."""

from __future__ import annotations

from collections import Counter

from webpte.engine.load.program_file import BACKENDS, Contents
from webpte.errors import ForeignDelegateError, UnsupportedOpError

_CACHE = (
    "update_and_attend leaves the KV cache to the runtime, and the file does not say whether a "
    "layer sees all tokens or a window: export the model with its own cache (update_cache, "
    "custom_sdpa)"
)
_COMPLEX = (
    "complex numbers have no type in the file format: compute with real and imaginary parts as two "
    "tensors"
)
# Advice about operators that cannot be supported, by operator name.
_ADVICE = {
    "update_and_attend": _CACHE,
    "_conj_physical": _COMPLEX,
    "view_as_real_copy": _COMPLEX,
    "view_as_complex_copy": _COMPLEX,
}

# Hardware that the delegates of other backends were compiled for.
_MADE_FOR = {
    "CoreMLBackend": "Apple's Core ML",
    "CudaBackend": "NVIDIA's CUDA",
    "EthosUBackend": "Arm's Ethos-U",
    "MLXBackend": "Apple's MLX",
    "MPSBackend": "Apple's Metal",
    "NeuropilotBackend": "MediaTek's NPU",
    "OpenvinoBackend": "Intel's OpenVINO",
    "QnnBackend": "Qualcomm's NPU",
    "SamsungBackend": "Samsung's NPU",
    "TOSABackend": "Arm's TOSA",
}


def check_supported(contents: Contents) -> None:
    """Raise an error with everything that could not run, before anything is allocated."""
    for method in contents.methods.values():
        for delegate in method.plan.delegates:
            if delegate.id not in BACKENDS:
                told = _foreign_message(method.info.name, delegate.id)
                raise ForeignDelegateError(f"{contents.source.name}: {told}")
    missing: Counter[str] = Counter()
    for method in contents.methods.values():
        missing.update(method.info.unsupported)
    if missing:
        advice = dict.fromkeys(text for name in missing if (text := _ADVICE.get(_plain(name))))
        raise UnsupportedOpError(contents.source.name, missing, "; ".join(advice))


def _plain(name: str) -> str:
    """Return an operator's name without its namespace and its overload."""
    return name.partition("::")[2].partition(".")[0] if "::" in name else name.split(".")[-2:][0]


def _foreign_message(method: str, backend: str) -> str:
    made_for = _MADE_FOR.get(backend)
    named = f"{backend!r} ({made_for})" if made_for else repr(backend)
    return (
        f"method {method!r} has a delegate compiled for {named}, which only that backend can run. "
        "Take the model's file for XNNPACK or Vulkan, which is often beside this file, or export "
        "for this runtime with:\n"
        "    from executorch.backends.vulkan.partitioner.vulkan_partitioner "
        "import VulkanPartitioner\n"
        "    to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])"
    )
