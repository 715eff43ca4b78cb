"""Around faults of ExecuTorch 1.5.1's exporter. Each says what is wrong there."""

from __future__ import annotations

import functools
import sys


def mend_exporter() -> None:
    """Once per process, before anything of ExecuTorch's exporter is used."""
    _without_torchvision()
    import executorch.backends.vulkan.partitioner.vulkan_partitioner  # noqa: F401
    from executorch.backends.vulkan.patterns import fusable_patterns

    # The pattern graphs, which take it longer to make than most models take in all, are cached,
    # but the functions were registered before that: they were made anew for every delegate.
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None and not hasattr(entry.get_graphs_fn, "cache_info"):
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)


def _without_torchvision() -> None:
    """Nothing here needs it, and one that was built for another torch fails when imported."""
    if "torchvision" not in sys.modules:
        sys.modules["torchvision"] = None  # type: ignore[assignment]
