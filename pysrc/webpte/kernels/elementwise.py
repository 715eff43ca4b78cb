"""Element-wise kernels: the references of the delegates' ops under their portable names."""

from __future__ import annotations

from webpte.kernels.registry import register_op

# kernel: (op of the delegates that means the same, number of schema arguments)
SAME_AS_OP = {
    "aten::mean.out": ("aten.mean.dim", 4),
    "aten::add.out": ("aten.add.Tensor", 3),
}

for _name, (_op, _arguments) in SAME_AS_OP.items():
    register_op(_name, _op, _arguments)
