"""Kinds of numbers in which ExecuTorch exports modules for XNNPACK, for `make_xnnpack.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from executorch.backends.xnnpack.operators.node_visitor import NodeVisitor, register_node_visitor
from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS, MaxDimConfig
from executorch.backends.xnnpack.partition.config.generic_node_configs import (
    EluConfig,
    GenericNodePartitionerConfig,
)
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.backends.xnnpack.serialization.xnnpack_graph_schema import (
    XNNScaledDotProductAttention,
    XNode,
)
from torch import Tensor, nn
from torch.export import export
from torchao.quantization.granularity import PerAxis, PerGroup
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.quantization.quant_api import Int8DynamicActivationIntxWeightConfig, quantize_
from torchao.utils import unwrap_tensor_subclass

Calls: TypeAlias = Sequence[tuple[Tensor, ...]]
# Changes a module for an export with the inputs of calls, whose sizes may change as stated.
Prepare: TypeAlias = Callable[[nn.Module, Calls, Any], nn.Module]


# --- nodes that today's partitioner leaves to other kernels, and that files have -----------------


class PlacesConfig(MaxDimConfig):
    """Takes maxima whose places are an output as well: ArgMaxPooling2d."""

    def check_constraints(self, _node: Any, _program: Any) -> bool:
        return True


class AttentionConfig(GenericNodePartitionerConfig):
    """Takes attention with a mask, as ExecuTorch 0.2 to 0.6 did."""

    target_name = "scaled_dot_product_attention.default"

    def check_constraints(self, node: Any, program: Any) -> bool:
        return self.check_common_constraints(node, program) and len(node.all_input_nodes) == 4

    def get_original_aten(self) -> Any:
        return torch.ops.aten.scaled_dot_product_attention.default

    def supported_precision_types(self) -> list[ConfigPrecisionType]:
        return [ConfigPrecisionType.FP32]


@register_node_visitor
class AttentionVisitor(NodeVisitor):
    """Writes the node that ExecuTorch 0.2 to 0.6 wrote; the scale is an input of the module."""

    target = "aten.scaled_dot_product_attention.default"

    def define_node(self, node: Any, graph: Any, ids: Any, debug_handle: int) -> None:
        self.define_nodes_tensor_inputs_outputs(node, graph, ids)
        query, key, value, mask = node.all_input_nodes
        for each in (query, key, value, mask):
            self.define_tensor(each, graph, ids)
        scale = scale_of(node, query.meta["val"].shape[-1])
        self.define_tensor(scale, graph, ids)
        names = {"query": query, "key": key, "value": value, "scale": scale, "mask": mask}
        places = {f"{name}_id": ids[each] for name, each in {**names, "output": node}.items()}
        union = XNNScaledDotProductAttention(**places, flags=0)
        graph.xnodes.append(XNode(xnode_union=union, debug_handle=debug_handle))


def scale_of(node: Any, channels: int) -> Any:
    """Return a node for the constant that the query is multiplied with, per channel."""
    graph = torch.fx.Graph()
    owner = torch.fx.GraphModule({}, graph)
    made = torch.fx.Node(graph, "scale", "get_attr", "scale", (), {})
    made.meta["val"] = torch.full((channels,), node.kwargs.get("scale") or channels**-0.5)
    owner.scale = made.meta["val"]
    graph._owning_module = owner
    return made


OTHER_CONFIGS = [config for config in ALL_PARTITIONER_CONFIGS if config is not MaxDimConfig]
CONFIGS = [*OTHER_CONFIGS, PlacesConfig, EluConfig, AttentionConfig]


# --- kinds of numbers ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A way to export a module, and how near outputs must come."""

    share: float  # of the largest number of an output
    prepare: Prepare = lambda module, _calls, _shapes: module
    dtype: torch.dtype = torch.float32  # of the inputs
    by_row: bool = False  # rows are quantized in each run
    options: Mapping[str, Any] = field(default_factory=dict)

    def partitioners(self) -> list[XnnpackPartitioner]:
        whole = XnnpackPartitioner(configs=CONFIGS, **self.options)
        if not self.by_row:
            return [whole]
        rows = {"config_precisions": ConfigPrecisionType.DYNAMIC_QUANT, "per_op_mode": True}
        return [XnnpackPartitioner(**rows), XnnpackPartitioner()]


def pt2e(*, per_channel: bool, by_row: bool = False) -> Prepare:
    """Return the quantization to 8 bits with XNNPACK's quantizer, calibrated with all calls."""

    def prepare(module: nn.Module, calls: Calls, shapes: Any) -> nn.Module:
        config = get_symmetric_quantization_config(is_per_channel=per_channel, is_dynamic=by_row)
        exported = export(module, calls[0], dynamic_shapes=shapes).module()
        prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(config))
        for inputs in calls:
            prepared(*inputs)
        converted: nn.Module = convert_pt2e(prepared)
        return converted

    return prepare


def torchao(bits: int, group: int = 0) -> Prepare:
    """Return torchao's quantization of linear weights, in groups or per channel."""

    def prepare(module: nn.Module, _calls: Calls, _shapes: Any) -> nn.Module:
        config = Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, f"int{bits}"),
            weight_granularity=PerGroup(group) if group else PerAxis(0),
        )
        quantize_(module, config)
        unwrapped: nn.Module = unwrap_tensor_subclass(module)
        return unwrapped

    return prepare


def halved(module: nn.Module, _calls: Calls, _shapes: Any) -> nn.Module:
    return module.half()


def halved_pt2e(module: nn.Module, calls: Calls, shapes: Any) -> nn.Module:
    return pt2e(per_channel=True, by_row=True)(module.half(), calls, shapes)


class InBfloat16(nn.Module):
    """A module that computes in bfloat16, between inputs and an output of float32."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module.to(torch.bfloat16)

    def forward(self, *inputs: Tensor) -> Tensor:
        result: Tensor = self.module(*(x.to(torch.bfloat16) for x in inputs)).float()
        return result


class Stepped(nn.Module):
    """A function of a tensor between two quantizations to int8 with given steps."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        return stepped(self.module(stepped(x, 0.05, 3)), 0.04, -7)


def stepped(x: Tensor, scale: float, zero: int) -> Tensor:
    ops, ends = torch.ops.quantized_decomposed, (scale, zero, -128, 127, torch.int8)
    result: Tensor = ops.dequantize_per_tensor(ops.quantize_per_tensor(x, *ends), *ends)
    return result


HALF = torch.float16
KINDS = {
    "f32": Kind(1e-3),
    "f16": Kind(4e-3, halved, HALF),
    "bf16": Kind(2e-2, lambda m, _calls, _shapes: InBfloat16(m), options={"enable_bf16": True}),
    "qs8": Kind(1e-2, pt2e(per_channel=False)),
    "qc8": Kind(1e-2, pt2e(per_channel=True)),
    "q8": Kind(1e-2, lambda module, _calls, _shapes: Stepped(module)),
    "qd8": Kind(1e-2, pt2e(per_channel=False, by_row=True), by_row=True),
    "qd8_qc8w": Kind(1e-2, pt2e(per_channel=True, by_row=True), by_row=True),
    "qd8_f16": Kind(1e-2, halved_pt2e, HALF, by_row=True),
    "qd8_qc4w": Kind(1e-2, torchao(4), by_row=True),
    "qd8_qb4w_g32": Kind(1e-2, torchao(4, 32), by_row=True),
    "qd8_qb4w_g64": Kind(1e-2, torchao(4, 64), by_row=True),
}
