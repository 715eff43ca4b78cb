"""Patches for faults of ExecuTorch 1.5.1's exporter, each with the fault that it mends."""

from __future__ import annotations

import functools
import gc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from webpte_export.loops import emit_while_loops
from webpte_export.pattern_guards import guard_patterns


def patch_exporter() -> None:
    """Apply the patches, before anything of ExecuTorch's exporter is used."""
    hide_broken_torchvision()
    import executorch.backends.vulkan.partitioner.vulkan_partitioner  # noqa: F401
    from executorch.backends.vulkan.patterns import fusable_patterns
    from torch.fx.traceback import NodeSource

    # Every pass records a node's origin with a deep copy of all earlier records, which takes most
    # of the time of a long chain of passes. The records never change, so they can be shared.
    NodeSource.__deepcopy__ = lambda source, _memo: source
    # Building the pattern graphs takes longer than most models. Their functions are cached, but
    # were registered without the cache, so that every delegate built them again.
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None and not hasattr(entry.get_graphs_fn, "cache_info"):
            entry.get_graphs_fn = functools.cache(entry.get_graphs_fn)
    describe_rotary_shapes()
    guard_patterns(fusable_patterns)
    keep_fake_mode()
    keep_shared_state()
    keep_unused_inputs()
    keep_equal_outputs()
    keep_buffers_that_stay()
    keep_changing_sizes()
    keep_sizes_outside()
    take_masks_as_given()
    emit_while_loops()


@functools.cache
def describe_rotary_shapes() -> None:
    """Compute the result shapes of the operator for rotary embeddings without running it.

    The operator's code slices tables at the position. Passes that run it on an unknown position
    refused the slice.
    """
    import executorch.backends.vulkan.custom_ops_lib  # noqa: F401
    import torch

    def shapes(q: Any, k: Any, _cos: Any, _sin: Any, _start: Any) -> tuple[Any, Any]:
        return torch.empty_like(q), torch.empty_like(k)

    torch.library.register_fake("et_vk::apply_rotary_emb_hf", shapes)


def keep_fake_mode() -> None:
    """Run each pass in the fake tensor mode of its graph.

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


def keep_shared_state() -> None:
    """Keep a buffer outside of delegates if a delegate reads it and another computes its content.

    The partitioner gave it to the reader, and the program was then refused as invalid.
    """
    from executorch.backends.vulkan.partitioner import vulkan_partitioner

    original = vulkan_partitioner.tag_mutated_buffer
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def tag(program: Any) -> None:
        original(program)
        nodes = {node.name: node for node in program.graph.nodes}
        given = program.graph_signature.inputs_to_buffers
        buffers = {name: buffer for buffer, name in given.items()}
        for writer, name in program.graph_signature.buffers_to_mutate.items():
            buffer = nodes.get(buffers.get(name, ""))
            if buffer is None or "delegation_tag" not in buffer.meta:
                continue
            touching = [node for node in buffer.users if node.op != "output"]
            tags = {node.meta.get("delegation_tag") for node in (*touching, nodes[writer])}
            if tags != {buffer.meta["delegation_tag"]}:
                del buffer.meta["delegation_tag"]

    vulkan_partitioner.tag_mutated_buffer = tag


def keep_unused_inputs() -> None:
    """Keep the unused inputs of a delegate, such as sizes that passes replaced.

    The exporter left them out of the delegate's graph, but not out of its calls, and the file does
    not name them.
    """
    from executorch.backends.vulkan.serialization.vulkan_graph_builder import VkGraphBuilder

    original = VkGraphBuilder.process_placeholder_node
    if hasattr(original, "__wrapped__"):
        return
    from executorch.backends.vulkan.utils import is_param_node

    @functools.wraps(original)
    def process(self: Any, node: Any) -> None:
        if node.users or is_param_node(self.program, node):
            original(self, node)
            return
        ids = self.create_node_value(node)
        self.input_ids += [ids] if isinstance(ids, int) else ids

    VkGraphBuilder.process_placeholder_node = process


def keep_equal_outputs() -> None:
    """Name a value twice that a delegate returns twice, because passes removed a copy or a view.

    The exporter named it once, so that the call of the delegate had more outputs than its graph.
    """
    from executorch.backends.vulkan.serialization.vulkan_graph_builder import VkGraphBuilder
    from torch.utils._pytree import tree_leaves

    original = VkGraphBuilder.process_output_node
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def process(self: Any, node: Any) -> None:
        original(self, node)
        numbers = [self.node_to_value_ids.get(result) for result in tree_leaves(node.args)]
        # The other numbers belong to buffers.
        self.output_ids[:] = [number for number in numbers if number in self.output_ids]

    VkGraphBuilder.process_output_node = process


def keep_buffers_that_stay() -> None:
    """Name a buffer that an operator changes in place, while others replace theirs.

    Its new content is the buffer itself, whose name the exporter looked for before it was given.
    """
    from executorch.backends.vulkan.serialization.vulkan_graph_builder import VkGraphBuilder

    original = VkGraphBuilder.create_node_value
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def create(self: Any, node: Any) -> Any:
        if node.op == "placeholder":
            self.buffer_mutation_inputs.pop(node.name, None)
        return original(self, node)

    VkGraphBuilder.create_node_value = create


def keep_changing_sizes() -> None:
    """Leave out a check of element types that fixes changing sizes.

    It runs each operator again, which may compare a changing size with a number; the size of the
    example is then the program's only size, and later passes refuse it, or take it as given.
    """
    from executorch.exir.verification import verifier

    verifier._check_tensor_args_matching_op_allowed_dtype = lambda _module: None


def keep_sizes_outside() -> None:
    """Make no delegate that only computes sizes: without a tensor to return, it is refused."""
    import torch
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import VulkanPartitioner

    original = VulkanPartitioner.partition
    if hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def partition(self: Any, program: Any) -> Any:
        found = original(self, program)
        members: dict[str, list[Any]] = {}
        for node in program.graph.nodes:
            if node.op != "placeholder" and "delegation_tag" in node.meta:
                members.setdefault(node.meta["delegation_tag"], []).append(node)
        for tag, nodes in members.items():
            values = [node.meta.get("val") for node in nodes]
            if all(isinstance(value, torch.SymInt | int) for value in values):
                del found.partition_tags[tag]
                for node in nodes:
                    del node.meta["delegation_tag"]
        return found

    VulkanPartitioner.partition = partition


def take_masks_as_given() -> None:
    """Keep torch.nn.Transformer from comparing its mask with a causal one.

    The comparison chooses a kernel by values, which torch.export refuses. The mask is applied in
    either case.
    """
    from torch.nn.modules import transformer

    def is_causal(_mask: Any, given: bool | None = None, _size: int | None = None) -> bool:
        return given is True

    if hasattr(transformer, "_detect_is_causal_mask"):
        transformer._detect_is_causal_mask = is_causal


def hide_broken_torchvision() -> None:
    """Hide a torchvision built for another torch: libraries fail when they try to import it."""
    if "torchvision" in sys.modules or importlib.util.find_spec("torchvision") is None:
        return
    try:
        import torchvision  # noqa: F401
    except Exception:
        sys.modules["torchvision"] = None  # type: ignore[assignment]


@contextmanager
def fewer_collections() -> Iterator[None]:
    """Make garbage collections rarer, which otherwise take a quarter of an export's time.

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
