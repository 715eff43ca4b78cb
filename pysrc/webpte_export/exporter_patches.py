"""Around faults of ExecuTorch 1.5.1's exporter. Each says what is wrong there."""

from __future__ import annotations

import functools
import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def mend_exporter() -> None:
    """Once per process, before anything of ExecuTorch's exporter is used."""
    without_broken_torchvision()
    import executorch.backends.vulkan.partitioner.vulkan_partitioner  # noqa: F401
    from executorch.backends.vulkan.patterns import fusable_patterns
    from torch.fx.traceback import NodeSource

    # Every pass notes where a node came from, with a copy of all notes before: most of the time of
    # a long chain of passes. Nobody changes them, so that they can be shared.
    NodeSource.__deepcopy__ = lambda source, _memo: source
    # The pattern graphs, which take it longer to make than most models take in all, are cached,
    # but the functions were registered before that: they were made anew for every delegate.
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None and not hasattr(entry.get_graphs_fn, "cache_info"):
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)


def without_broken_torchvision() -> None:
    """One that was built for another torch fails when libraries that could do without import it."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision  # noqa: F401
    except Exception:
        sys.modules["torchvision"] = None  # type: ignore[assignment]


@contextmanager
def fewer_collections() -> Iterator[None]:
    """The libraries are millions of objects, and passes make so many more that looking through all
    of them for garbage, again and again, takes a quarter of an export's time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
