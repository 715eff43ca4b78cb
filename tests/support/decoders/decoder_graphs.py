"""Layers of decoders of many families, as our exporter writes them, for counts of dispatches."""

from __future__ import annotations

from dataclasses import dataclass

from support.decoders.epilogue_graphs import GELU, layer_norm
from support.graphs.fusion_graphs import ADD, Zeros
from support.write.pte_writer import GraphWriter

HEADS, KEY_HEADS, SIZE, HIDDEN, CONTEXT = 6, 2, 32, 320, 2304
WIDTH = HEADS * SIZE


@dataclass(frozen=True)
class Family:
    """A family of decoders: the differences of its layers to Llama's.

    norm      "rms" or "layer"
    biases    where linear layers have biases: "qkv", "o", "mlp"
    heads     norms of queries and keys: "head", "token" or ""
    rope      "half", "pairs" or ""
    gate      the MLP's gate: "silu", "gelu" or "", which means no gate, but gelu
    after     norms also after attention and MLP, instead of before with `before` false
    parallel  attention and MLP read the same x: of one norm ("one") or of two ("two")
    masked    attention has a mask, for a sliding window
    """

    norm: str = "rms"
    biases: tuple[str, ...] = ()
    heads: str = ""
    rope: str = "half"
    gate: str = "silu"
    before: bool = True
    after: bool = False
    parallel: str = ""
    masked: bool = False


_BIASES = ("qkv", "o", "mlp")
FAMILIES = {
    "llama": Family(rope="pairs"),
    "qwen2": Family(biases=("qkv",)),
    "qwen3": Family(heads="head"),
    "gemma": Family(gate="gelu"),
    "gemma3": Family(heads="head", gate="gelu", after=True, masked=True),
    "mistral": Family(masked=True),
    "olmo2": Family(heads="token", before=False, after=True),
    "smollm3": Family(rope=""),
    "gpt2": Family("layer", _BIASES, rope="", gate=""),
    "gpt_neox": Family("layer", _BIASES, gate="", parallel="two"),
    "phi": Family("layer", _BIASES, gate="", parallel="one"),
    "cohere": Family("layer", rope="pairs", parallel="one"),
}


class _Layers:
    """A writer of the layers of one family."""

    def __init__(self, family: Family, tokens: int) -> None:
        self.family, self.net, self.tokens = family, Zeros(), tokens
        g = self.net.g
        self.x, self.place = g.tensor((1, tokens, WIDTH)), g.symint()
        half = family.rope == "half"
        dims = (CONTEXT, SIZE) if half else (tokens, SIZE // 2)
        self.tables = [g.tensor(dims) for _ in range(2)]
        self.mask = g.tensor((tokens, CONTEXT)) if family.masked else g.null()

    def norm(self, x: int) -> int:
        return self.net.norm(x) if self.family.norm == "rms" else layer_norm(self.net, x)

    def linear(self, x: int, rows: int, where: str) -> int:
        y = self.net.linear(x, rows, "int8")
        if where not in self.family.biases:
            return y
        return self.net.g.op(ADD, y, self.net.constant(self.net.floats(rows)), self.net.g.int(1),
                             self.net.like(y))  # fmt: skip

    def gelu(self, x: int) -> int:
        return self.net.g.op(GELU, x, self.net.g.string("tanh"), self.net.like(x))

    def attention(self, h: int) -> int:
        net, g, family = self.net, self.net.g, self.family
        made = []
        for i, heads in enumerate((HEADS, KEY_HEADS, KEY_HEADS)):
            y = self.linear(h, heads * SIZE, "qkv")
            if family.heads == "token" and i < 2:
                y = net.norm(y)
            y = net.view(y, 1, self.tokens, heads, SIZE)
            made.append(net.norm(y) if family.heads == "head" and i < 2 else y)
        if family.rope:
            turned = [net.like(i) for i in made[:2]]
            kind, start = ("_hf", (self.place,)) if family.rope == "half" else ("", ())
            name = f"et_vk.apply_rotary_emb{kind}.default"
            g.op(name, *made[:2], *self.tables, *start, g.value_list(turned))
            made[:2] = turned
        caches = [net.constant(net.floats(1, CONTEXT, KEY_HEADS, SIZE)) for _ in range(2)]
        causal = g.bool_(not family.masked)
        rest = (self.place, g.int(1), self.mask, g.int(0), causal, g.null())
        out = g.tensor((1, self.tokens, HEADS, SIZE))
        g.op("sdpa_with_kv_cache.default", *made, *caches, *rest, out)
        return self.linear(net.view(out, 1, self.tokens, WIDTH), WIDTH, "o")

    def mlp(self, h: int) -> int:
        gate = self.linear(h, HIDDEN, "mlp")
        if self.family.gate == "silu":
            inner = self.net.mul(self.net.mul(gate, self.net.sigmoid(gate)),
                                 self.linear(h, HIDDEN, "mlp"))  # fmt: skip
        elif self.family.gate:
            inner = self.net.mul(self.gelu(gate), self.linear(h, HIDDEN, "mlp"))
        else:
            inner = self.gelu(gate)
        return self.linear(inner, WIDTH, "mlp")

    def layer(self, x: int) -> int:
        family, net = self.family, self.net
        if family.parallel:
            h = self.norm(x)
            y = net.add(self.attention(h), x)
            return net.add(self.mlp(h if family.parallel == "one" else self.norm(x)), y)
        for block in (self.attention, self.mlp):
            given = block(self.norm(x) if family.before else x)
            x = net.add(x, self.norm(given) if family.after else given)
        return x


def decoder_layers(family: Family, tokens: int, count: int) -> GraphWriter:
    """Write layers for some tokens, with zero weights."""
    layers = _Layers(family, tokens)
    x = layers.x
    for _ in range(count):
        x = layers.layer(x)
    given = (layers.tables if family.rope else []) + ([layers.mask] if family.masked else [])
    layers.net.g.inputs(layers.x, layers.place, *given)
    layers.net.g.outputs(x)
    return layers.net.g
