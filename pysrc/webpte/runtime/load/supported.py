"""Refuses files that hold what this runtime cannot run."""

from __future__ import annotations

from collections import Counter

from webpte.errors import ForeignDelegateError, UnsupportedOpError
from webpte.runtime.load.program_file import BACKEND, Contents


def check_supported(contents: Contents) -> None:
    """Raise for everything that could not run, all at once, before anything is allocated."""
    for method in contents.methods.values():
        for delegate in method.plan.delegates:
            if delegate.id != BACKEND:
                raise ForeignDelegateError(_foreign_message(method.info.name, delegate.id))
    missing: Counter[str] = Counter()
    for method in contents.methods.values():
        missing.update(method.info.unsupported)
    if missing:
        raise UnsupportedOpError(contents.source.name, missing)


def _foreign_message(method: str, backend: str) -> str:
    return (
        f"method {method!r} has a delegate compiled for {backend!r}, which only that backend can "
        "run. Export for this runtime with:\n"
        "    from executorch.backends.vulkan.partitioner.vulkan_partitioner "
        "import VulkanPartitioner\n"
        "    to_edge_transform_and_lower(exported, partitioner=[VulkanPartitioner()])"
    )
