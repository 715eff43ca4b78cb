"""Names of values for people: the file's names where it has them, else names by the call.

Files name values by number ("0.41"), and ExecuTorch names weights by the SHA-256 of their bytes:
neither says anything. So a weight is named like "linear 7 weight", a result like "linear 7 out".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from webpte.inspection.report import GraphValue, MethodGraph, Node

_HASH = re.compile(r"[0-9a-f]{40,}")


def short(op: str) -> str:
    """Shorten an operator's name: "aten.add.Tensor" -> "add.Tensor"."""
    space, _, rest = op.partition(".")
    return rest.removesuffix(".default") if "." in rest or space == "webpte" else op


class Names:
    """The names of one graph's values; `inputs` and `outputs` belong to the method."""

    def __init__(
        self, graph: MethodGraph, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
    ) -> None:
        self._graph = graph
        self._given: dict[str, str] = {}
        for keys, names in ((graph.outputs, outputs), (graph.inputs, inputs)):
            if len(keys) == len(names):
                self._given |= dict(zip(keys, names, strict=True))
        self._known: dict[str, str] = {}

    def of(self, key: str) -> str:
        """Return the name of a value; its key if nothing is known of it."""
        if key not in self._known:
            self._known[key] = self.own(key) or self._find(key)
        return self._known[key]

    def own(self, key: str) -> str:
        """Return the name that the method, its card or the file has for a value; "" if none."""
        value = self._graph.values.get(key)
        return self._given.get(key) or (file_name(value) if value is not None else "")

    def _find(self, key: str) -> str:
        value = self._graph.values.get(key)
        if value is None:
            return key
        if value.constant is not None or value.kind in ("constant", "state"):
            reader = next(iter(self._graph.readers(key)), None)
            return key if reader is None else f"{call_name(reader)} {_argument(reader, key)}"
        writer = next(iter(self._graph.writers(key)), None)
        if writer is None:
            return key
        number = f" {writer.outputs.index(key)}" if len(writer.outputs) > 1 else ""
        return f"{call_name(writer)} out{number}"


def file_name(value: GraphValue) -> str:
    """Return the name that the file has for a weight, such as "layers.0.weight"; "" if none."""
    name = value.constant.name if value.constant is not None else None
    return "" if not name or _HASH.fullmatch(name) else name


def call_name(node: Node) -> str:
    return f"{short(node.op)} {node.id}"


def _argument(node: Node, key: str) -> str:
    """Return the name of the argument that a value is, with its number in a list."""
    for argument in node.arguments:
        if key in argument.values:
            at = argument.values.index(key)
            return argument.name if len(argument.values) == 1 else f"{argument.name} {at}"
    return "weight"
