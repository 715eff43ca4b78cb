"""Writes loops until a value is reached into programs: ExecuTorch's exporter refuses them.

A loop consists of the instructions that branches have, jumps to a later or an earlier place.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any


def emit_while_loops() -> None:
    """Let ExecuTorch's exporter plan the memory of loops, and write them."""
    import torch
    from executorch.exir import memory_planning
    from executorch.exir.emit._emitter import _Emitter

    original = _Emitter._emit_control_flow
    if hasattr(original, "__wrapped__"):
        return
    loop = torch.ops.higher_order.while_loop

    @functools.wraps(original)
    def emit(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not loop:
            return original(self, target, args, kwargs)
        results = [self._emit_spec(spec) for spec in self.node.meta["spec"]]
        _emit_loop(self, results, *args)
        return results

    def loops(graph: Any) -> Iterator[Any]:
        return (node for node in graph.graph.nodes if node.target is loop)

    _Emitter._emit_control_flow = emit
    memory_planning.get_while_nodes = loops


def _emit_loop(
    emitter: Any, results: list[Any], condition: Any, body: Any, carried: Any, more: Any
) -> None:
    """Write the instructions of a loop; `results` hold the state between two rounds."""
    from executorch.exir.emit._emitter import _Emitter
    from executorch.exir.schema import Bool, EValue, Instruction, JumpFalseCall, KernelCall

    chain = emitter.chain.instructions
    never = emitter._emit_evalue(EValue(Bool(False)))
    copy, _ = emitter._get_operator(name="aten::copy_")

    def here() -> int:
        return int(emitter.instruction_start_offset) + len(chain)

    def hand_over(values: Any) -> None:
        for value, result in zip(values, results, strict=True):
            if value.id != result.id:
                given = [result.id, value.id, never.id, result.id]
                chain.append(Instruction(KernelCall(op_index=copy, args=given)))

    def part(graph: Any) -> list[Any]:
        inner = _Emitter(
            *(graph, emitter.emitter_state, emitter.program_state),
            instruction_start_offset=here(),
            binding_input_values=[*results, *more],
            binding_output_values=None,
        )
        inner.run()
        emitter._merge_chain(inner.chain)
        return list(inner.concrete_output_ids)

    hand_over(carried)
    start = here()
    (going,) = part(condition)
    out = JumpFalseCall(cond_value_index=going.id, destination_instruction=0)
    chain.append(Instruction(out))
    hand_over(part(body))
    chain.append(
        Instruction(JumpFalseCall(cond_value_index=never.id, destination_instruction=start))
    )
    out.destination_instruction = here()


def separate_rounds(exported: Any) -> None:
    """Copy values that a round of a loop takes from other values of the round before.

    A round's results are handed over one after the other, and may overwrite each other.
    """
    import torch

    from webpte_export.state import copied

    loops = {torch.ops.higher_order.while_loop: 1, torch.ops.higher_order.scan: 0}
    graphs = [m for m in exported.graph_module.modules() if isinstance(m, torch.fx.GraphModule)]
    for graph in graphs:
        for node in [node for node in graph.graph.nodes if node.target in loops]:
            body = getattr(graph, node.args[loops[node.target]].target)
            output, seen = body.graph.output_node(), set()
            inputs = list(body.graph.find_nodes(op="placeholder"))
            results = list(output.args[0])
            for place, result in enumerate(results):
                if result in seen or (result in inputs and inputs.index(result) != place):
                    results[place] = copied(body.graph, output, result)
                seen.add(result)
            output.args = (tuple(results),)
            body.recompile()
