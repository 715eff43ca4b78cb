"""Patches for faults of ExecuTorch 1.5.1's exporter, each with the fault that it works around."""

from __future__ import annotations

import functools
import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def patch_exporter() -> None:
    """Apply the patches, before anything of ExecuTorch's exporter is used."""
    hide_broken_torchvision()
    import executorch.backends.vulkan.partitioner.vulkan_partitioner  # noqa: F401
    from executorch.backends.vulkan.patterns import fusable_patterns
    from torch.fx.traceback import NodeSource

    # Every pass records a node's origin with a deep copy of all earlier records, which takes most
    # of the time of a long chain of passes. They are never changed, so they can be shared.
    NodeSource.__deepcopy__ = lambda source, _memo: source
    # Building the pattern graphs takes longer than most models. Their functions are cached, but
    # were registered uncached, so that every delegate built them again.
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None and not hasattr(entry.get_graphs_fn, "cache_info"):
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)


def hide_broken_torchvision() -> None:
    """Hide a torchvision built for another torch, whose import fails in libraries that try it."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision  # noqa: F401
    except Exception:
        sys.modules["torchvision"] = None  # type: ignore[assignment]


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Rarer garbage collections, which else take a quarter of an export's time.

    The libraries hold millions of objects, and passes allocate so many more that each collection
    traverses all of them.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
