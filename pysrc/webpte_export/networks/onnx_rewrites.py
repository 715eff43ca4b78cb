"""Simplifies ONNX graphs to forms that the exporter knows.

Rules: constants are computed, identity nodes are removed, GELU and layer norms that are spelled out
become a node each, and a constant added per channel to a convolution becomes its bias.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from webpte_export.networks.onnx_file import Graph, Node


def simplified(graph: Graph) -> Graph:
    plain = without_identities(with_constants(graph))
    return with_biases(with_heads(with_layer_norms(with_gelu(plain))))


def with_constants(graph: Graph) -> Graph:
    """Move constants that are nodes, and reshaped constants, to the graph's own."""
    constants = dict(graph.constants)
    nodes = []
    for node in graph.nodes:
        if node.op == "Constant":
            constants[node.outputs[0]] = np.asarray(node.attributes["value"])
        elif node.op == "Reshape" and all(name in constants for name in node.inputs):
            given, shape = (constants[name] for name in node.inputs)
            constants[node.outputs[0]] = given.reshape(shape.reshape(-1).tolist())
        else:
            nodes.append(node)
    return replace(graph, nodes=nodes, constants=constants)


def with_heads(graph: Graph) -> Graph:
    """Take the three parts of attention out of a sequence before it has heads: a GPU's tensors have
    four dims at most, and (batch, length, parts, heads, width) has five.
    """
    readers = _readers(graph)
    constants = dict(graph.constants)
    changed: dict[str, list[Node]] = {}  # the replacement of a node, by its output
    for turned in (node for node in graph.nodes if node.attributes.get("perm") == [2, 0, 3, 1, 4]):
        (split,) = (node for node in graph.nodes if node.outputs[0] == turned.inputs[0])
        count, heads, width = constants[split.inputs[1]].reshape(-1).tolist()[2:]
        changed |= {split.outputs[0]: [], turned.outputs[0]: []}
        shape = f"{split.outputs[0]}.heads"
        constants[shape] = np.array([0, -1, heads, width])
        for cut in readers[turned.outputs[0]]:
            part = int(constants[cut.inputs[1]].reshape(-1)[0])
            assert cut.op == "Slice", cut.op
            assert part < count
            flat = _only(readers, cut)
            names = [
                f"{flat.outputs[0]}.{what}" for what in ("start", "end", "axis", "cut", "split")
            ]
            ends = (part * heads * width, (part + 1) * heads * width, 2)
            constants |= {name: np.array([one]) for name, one in zip(names, ends, strict=False)}
            changed[cut.outputs[0]] = []
            changed[flat.outputs[0]] = [
                Node("Slice", (split.inputs[0], *names[:3]), (names[3],), {}),
                Node("Reshape", (names[3], shape), (names[4],), {}),
                Node("Transpose", (names[4],), flat.outputs, {"perm": [0, 2, 1, 3]}),
            ]
    nodes = [one for node in graph.nodes for one in changed.get(node.outputs[0], [node])]
    return replace(graph, nodes=nodes, constants=constants)


def with_layer_norms(graph: Graph) -> Graph:
    """Replace (x - mean) / sqrt(mean((x - mean)²) + epsilon) * weight + bias by a single node."""
    readers = _readers(graph)
    makers = {node.outputs[0]: node for node in graph.nodes}
    dropped: set[str] = set()
    norms: dict[str, Node] = {}
    for centred in (node for node in graph.nodes if node.op == "Sub"):
        source, mean = centred.inputs
        following = {node.op: node for node in readers.get(centred.outputs[0], [])}
        made = makers.get(mean)  # absent: a constant, or the input
        if made is None or made.op != "ReduceMean" or following.keys() != {"Pow", "Div"}:
            continue
        parts = [centred, made, following["Pow"]]
        for op in ("ReduceMean", "Add", "Sqrt", "Div", "Mul", "Add"):
            parts.append(_only(readers, parts[-1]))
            if parts[-1].op != op:
                raise ValueError(f"a layer norm of other parts: {op} is {parts[-1].op}")
        variance, plus, root, divided, scaled, moved = parts[3:]
        epsilon = _other(graph, plus, variance.outputs[0])
        weight, bias = (
            next(name for name in node.inputs if name in graph.constants)
            for node in (scaled, moved)
        )
        assert divided.inputs == (centred.outputs[0], root.outputs[0])
        dropped |= {node.outputs[0] for node in parts}
        norms[moved.outputs[0]] = Node(
            "LayerNorm", (source, weight, bias), moved.outputs, {"epsilon": epsilon}
        )
    nodes = []
    for node in graph.nodes:
        name = node.outputs[0]
        if name in norms:
            nodes.append(norms[name])
        elif name not in dropped:
            nodes.append(node)
    return replace(graph, nodes=nodes)


def without_identities(graph: Graph) -> Graph:
    """Remove identity nodes: their consumers read the node's input instead."""
    names: dict[str, str] = {}
    nodes = []
    for node in graph.nodes:
        inputs = tuple(names.get(name, name) for name in node.inputs)
        if node.op == "Identity":
            names[node.outputs[0]] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    return replace(graph, nodes=nodes, outputs=[names.get(name, name) for name in graph.outputs])


def with_gelu(graph: Graph) -> Graph:
    """Replace the five nodes of x * (erf(x / sqrt 2) + 1) * 0.5, in this order, by a single one."""
    readers = _readers(graph)
    makers = {node.outputs[0]: node for node in graph.nodes}
    dropped: set[str] = set()  # outputs of removed nodes
    gelus: dict[str, Node] = {}
    for erf in (node for node in graph.nodes if node.op == "Erf"):
        scaled = makers[erf.inputs[0]]
        source = scaled.inputs[0]
        plus_one = _only(readers, erf)
        times_x = _only(readers, plus_one)
        halved = _only(readers, times_x)
        constants = [
            _other(graph, *pair) for pair in ((scaled, source), (plus_one, erf.outputs[0]))
        ]
        constants.append(_other(graph, halved, times_x.outputs[0]))
        ops = [scaled.op, plus_one.op, times_x.op, halved.op]
        if ops != ["Div", "Add", "Mul", "Mul"] or source not in times_x.inputs:
            raise ValueError(f"an Erf is not part of a GELU: {erf.inputs[0]}")
        if not np.allclose(constants, [2**0.5, 1.0, 0.5]):
            raise ValueError(f"an Erf has other constants than GELU: {constants}")
        dropped |= {node.outputs[0] for node in (scaled, erf, plus_one, times_x, halved)}
        gelus[halved.outputs[0]] = Node("Gelu", (source,), halved.outputs, {})
    nodes = []
    for node in graph.nodes:
        made = node.outputs[0]
        if made in gelus:
            nodes.append(gelus[made])
        elif made not in dropped:
            nodes.append(node)
    return replace(graph, nodes=nodes)


def with_biases(graph: Graph) -> Graph:
    """Turn a per-channel constant added to a convolution into its bias."""
    readers = _readers(graph)
    constants = dict(graph.constants)
    joined: dict[str, Node] = {}
    dropped: set[str] = set()
    for conv in (node for node in graph.nodes if node.op == "Conv" and len(node.inputs) == 2):
        following = readers.get(conv.outputs[0], [])
        if len(following) != 1 or following[0].op != "Add":
            continue
        names = [name for name in following[0].inputs if name in constants]
        if len(names) != 1 or conv.inputs[1] not in constants:
            continue
        channels, _, *spatial = constants[conv.inputs[1]].shape
        per_channel = (channels, *[1] * len(spatial))
        if constants[names[0]].shape[-len(per_channel) :] != per_channel:
            continue
        bias = f"{names[0]}.bias"
        constants[bias] = constants[names[0]].reshape(-1)
        dropped.add(conv.outputs[0])
        made = following[0].outputs
        joined[made[0]] = replace(conv, inputs=(*conv.inputs, bias), outputs=made)
    nodes = [
        joined.get(node.outputs[0], node) for node in graph.nodes if node.outputs[0] not in dropped
    ]
    return replace(graph, nodes=nodes, constants=constants)


def _readers(graph: Graph) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            found.setdefault(name, []).append(node)
    return found


def _only(readers: dict[str, list[Node]], node: Node) -> Node:
    (reader,) = readers[node.outputs[0]]
    return reader


def _other(graph: Graph, node: Node, known: str) -> float:
    """Return the constant of an operator whose other input is `known`."""
    (name,) = (name for name in node.inputs if name != known)
    return float(graph.constants[name].reshape(-1)[0])
