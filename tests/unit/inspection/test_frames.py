"""Lines of the model's source: read from the file, and shown with the calls that they made."""

from __future__ import annotations

import pytest

import webpte
from support.graphs.graphs import wait
from support.graphs.stitching import logcumsumexp, method, neg
from support.write.pte_writer import MethodWriter, write_pte
from webpte.engine.format.frames import Frame, own_line
from webpte.engine.format.pte import parse_program
from webpte.engine.gpu.simulated.device import SimulatedDevice
from webpte.errors import FormatError

TORCH = "/opt/python/site-packages/torch/nn/modules/linear.py"


def traced() -> MethodWriter:
    """neg on a delegate, exp and logcumsumexp outside, each with the lines that they come from."""
    m = method((4,))
    x = neg(m, m.input(0))
    exp = m.tensor((4,))
    m.kernel("aten::exp.out", x, exp, exp)
    m.line("/home/me/model.py", 12, "forward", "  y = self.act(x)")
    m.line(TORCH, 134, "forward", "return F.linear(x)")
    m.outputs(logcumsumexp(m, neg(m, exp)))
    m.line("C:\\models\\model.py", 13, "forward", "return y.logcumsumexp(0)")
    return m


def lines(program: webpte.Program, stage: str = "planned") -> dict[str, str | None]:
    nodes = program.graph(stage=stage).nodes
    return {node.op: None if node.line is None else str(node.line) for node in nodes}


@pytest.mark.parametrize("stage", ["planned", "file"])
@pytest.mark.parametrize("device", ["numpy", "simulated"])
def test_a_call_knows_its_line(stage: str, device: str) -> None:
    async def run() -> None:
        where = SimulatedDevice() if device == "simulated" else device
        async with await webpte.load(write_pte(traced()), device=where) as program:
            made = "model.py:12 in forward: y = self.act(x)"
            apart = {"aten.neg.default": None, "aten::exp.out": made}
            fused = device == "simulated" and stage == "planned"
            assert lines(program, stage) == {
                **({"webpte.elementwise": made} if fused else apart),
                "aten::logcumsumexp.out": "model.py:13 in forward: return y.logcumsumexp(0)",
            }

    wait(run())


def test_files_without_lines_have_none() -> None:
    async def run() -> None:
        m = method((4,))
        m.outputs(logcumsumexp(m, m.input(0)))
        async with await webpte.load(write_pte(m), device="numpy") as program:
            assert lines(program) == {"aten::logcumsumexp.out": None}

    wait(run())


def test_pytorchs_own_lines_come_second() -> None:
    inner, outer = Frame(TORCH, 1, "forward", ""), Frame("model.py", 2, "", "y = x")
    assert own_line([outer, inner]) == outer
    assert own_line([inner]) == inner
    assert own_line([]) is None
    assert [str(frame) for frame in (inner, outer)] == [
        "linear.py:1 in forward",
        "model.py:2: y = x",
    ]


def test_one_entry_for_several_instructions_is_refused() -> None:
    m = traced()
    data = bytearray(write_pte(m))
    # The list of frame lists has as many entries as there are instructions: make it one less.
    count = len(m.instructions)
    found = [at for at in range(len(data) - 3) if data[at : at + 4] == bytes([count, 0, 0, 0])]
    errors = []
    for at in found:
        broken = bytearray(data)
        broken[at] = count - 1
        try:
            parse_program(bytes(broken), len(broken))
        except FormatError as error:
            errors.append(str(error))
    assert any(f"{count - 1} entries for {count} instructions" in text for text in errors)
