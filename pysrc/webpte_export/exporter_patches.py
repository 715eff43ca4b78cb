"""Patches for faults of ExecuTorch 1.5.1's exporter, each with the fault that it works around."""

from __future__ import annotations

import functools
import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


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
    keep_fake_mode()
    take_masks_as_given()


def keep_fake_mode() -> None:
    """Run each pass in the fake tensor mode of the graph that it is given.

    A pass looks for the mode among the graph's inputs, where lifted constants are real tensors. A
    graph with no other inputs got a second mode, and a later pass refused to mix the two.
    """
    from executorch.exir import pass_base
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

    original = pass_base._ExportPassBase.call
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def call(self: Any, graph_module: Any) -> Any:
        values = [node.meta.get("val") for node in graph_module.graph.nodes]
        mode = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
        if mode is None or any(
            isinstance(value, FakeTensor) for value in self.inputs(graph_module)
        ):
            return original(self, graph_module)
        mode.allow_non_fake_inputs = True
        pass_base.FakeTensorMode = lambda **_: mode
        try:
            with enable_python_dispatcher():
                return original(self, graph_module)
        finally:
            pass_base.FakeTensorMode = FakeTensorMode

    pass_base._ExportPassBase.call = call


def take_masks_as_given() -> None:
    """Keep torch.nn.Transformer from comparing its mask with a causal one.

    It does so to choose a kernel, but what it does next then depends on values, which torch.export
    refuses. The mask is applied in either case.
    """
    from torch.nn.modules import transformer

    def is_causal(_mask: Any, given: bool | None = None, _size: int | None = None) -> bool:
        return given is True

    if hasattr(transformer, "_detect_is_causal_mask"):
        transformer._detect_is_causal_mask = is_causal


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
