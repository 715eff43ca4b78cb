"""A step of LoRA training of a Llama-like model, with the backward pass written out.

    learn(tokens (B, T), targets (B, T), settings (4,), w (P,), m (P,), v (P,)) -> loss, w, m, v

targets   the token that follows each token, or -1 for a token not to be learned
settings  the learning rate, the weight decay, and AdamW's two bias corrections, 1 / (1 - beta^n)
w, m, v   all matrices of the LoRA in a row (`adapters.layout`), and AdamW's moments

Programs have no autograd. Each part below returns its result with the inputs of its backward pass,
so that both passes can be read side by side. Rows are tokens: activations are (N, width), N = B T.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from executorch.backends.vulkan import custom_ops_lib  # noqa: F401  (defines torch.ops.et_vk)
from torch import Tensor, nn

from webpte_export.llm.source import Shape
from webpte_export.training.adapters import BETAS, EPSILON, Adapter, LoraOptions
from webpte_export.training.frozen import frozen_layer

_HIDDEN_SCORE = -1e30  # for a later token; softmax turns it into zero


class Layer(nn.Module):
    """A frozen linear layer with a trained branch: W x + scale B (A x)."""

    def __init__(self, frozen: nn.Module, adapter: Adapter | None, scale: float) -> None:
        super().__init__()
        self.frozen = frozen_layer(frozen)
        self.adapter = adapter
        self.scale = scale

    def matrices(self, w: Tensor) -> tuple[Tensor, Tensor]:
        one = self.adapter
        assert one is not None
        a = w[one.start : one.middle].reshape(one.rank, one.inputs)
        return a, w[one.middle : one.end].reshape(one.outputs, one.rank)

    def forward(self, x: Tensor, w: Tensor) -> tuple[Tensor, Any]:
        y: Tensor = self.frozen(x)
        if self.adapter is None:
            return y, None
        a, b = self.matrices(w)
        low = nn.functional.linear(x, a) * self.scale
        return y + nn.functional.linear(low, b), (x, low, a, b)

    def backward(self, dy: Tensor, kept: Any, gradients: dict[int, Tensor]) -> Tensor:
        """Return the gradient of x; write the gradients of A and B into the flat vector."""
        dx: Tensor = self.frozen.backward(dy)
        if self.adapter is None:
            return dx
        x, low, a, b = kept
        d_low = torch.mm(dy, b) * self.scale
        gradients[self.adapter.start] = torch.ops.et_vk.linear_dW(d_low, x)
        gradients[self.adapter.middle] = torch.ops.et_vk.linear_dW(dy, low)
        return dx + torch.mm(d_low, a)


class Norm(nn.Module):
    """RMSNorm over the last dim: x / sqrt(mean(x²) + eps) * weight."""

    def __init__(self, weight: Tensor, eps: float) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach().float())
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = torch.ops.et_vk.rms_norm(x, self.weight, self.eps)
        return y

    def backward(self, dy: Tensor, x: Tensor) -> Tensor:
        # With a root, not rsqrt: the exporter would take it for another RMSNorm.
        root = torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)
        normed, scaled = x / root, dy * self.weight
        return (scaled - normed * (scaled * normed).mean(-1, keepdim=True)) / root


class Attention(nn.Module):
    """Causal attention of (B, T) tokens; queries of the same key head are rows of a product."""

    def __init__(
        self, block: Any, shape: Shape, layers: dict[str, Layer], options: LoraOptions
    ) -> None:
        super().__init__()
        self.shape, self.batch, self.length = shape, options.batch, options.length
        self.queries, self.keys = layers["attention.wq"], layers["attention.wk"]
        self.values, self.out = layers["attention.wv"], layers["attention.wo"]
        own = block.attention
        normed = shape.architecture == "qwen3"
        self.q_norm = Norm(own.q_norm_fn.weight, shape.norm_eps) if normed else None
        self.k_norm = Norm(own.k_norm_fn.weight, shape.norm_eps) if normed else None
        self.scale = shape.head_dim**-0.5

    def forward(self, x: Tensor, w: Tensor, step: Tables) -> tuple[Tensor, Any]:
        q, kept_q = self.queries(x, w)
        k, kept_k = self.keys(x, w)
        v, kept_v = self.values(x, w)
        q, k = self._heads(q), self._heads(k)
        raw = q, k
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = torch.ops.et_vk.apply_rotary_emb(q, k, step.cosines, step.sines)
        q, k, v = self._grouped(q), self._grouped(k), self._grouped(self._heads(v))
        scores = torch.bmm(q, k.transpose(1, 2)) * self.scale
        per_token = (-1, self.length, self.length)
        chances = torch.softmax(scores.reshape(per_token) + step.mask, -1).reshape(scores.shape)
        mixed = self._ungrouped(torch.bmm(chances, v), self.shape.heads)
        y, kept_out = self.out(mixed, w)
        return y, (kept_q, kept_k, kept_v, kept_out, raw, q, k, v, chances)

    def backward(self, dy: Tensor, kept: Any, step: Tables, gradients: dict[int, Tensor]) -> Tensor:
        kept_q, kept_k, kept_v, kept_out, raw, q, k, v, chances = kept
        mixed = self._grouped(self._heads(self.out.backward(dy, kept_out, gradients)))
        dv = torch.bmm(chances.transpose(1, 2), mixed)
        d_chances = torch.bmm(mixed, v.transpose(1, 2))
        weighted = d_chances * chances
        d_scores = (weighted - chances * weighted.sum(-1, keepdim=True)) * self.scale
        dq, dk = torch.bmm(d_scores, k), torch.bmm(d_scores.transpose(1, 2), q)
        heads, key_heads = self.shape.heads, self.shape.kv_heads
        dq, dk = (
            self._heads(self._ungrouped(dq, heads)),
            self._heads(self._ungrouped(dk, key_heads)),
        )
        dq, dk = torch.ops.et_vk.apply_rotary_emb(dq, dk, step.cosines, step.back_sines)
        if self.q_norm is not None and self.k_norm is not None:
            dq, dk = self.q_norm.backward(dq, raw[0]), self.k_norm.backward(dk, raw[1])
        rows = self.batch * self.length
        return (
            self.queries.backward(dq.reshape(rows, -1), kept_q, gradients)
            + self.keys.backward(dk.reshape(rows, -1), kept_k, gradients)
            + self.values.backward(self._ungrouped(dv, key_heads), kept_v, gradients)
        )

    def _heads(self, x: Tensor) -> Tensor:
        """(N, heads * size) -> (B, T, heads, size)"""
        return x.reshape(self.batch, self.length, -1, self.shape.head_dim)

    def _grouped(self, x: Tensor) -> Tensor:
        """(B, T, heads, size) -> (B * key heads, heads of each * T, size)"""
        keys, size = self.shape.kv_heads, self.shape.head_dim
        split = x.reshape(self.batch, self.length, keys, -1, size).permute(0, 2, 3, 1, 4)
        return split.reshape(self.batch * keys, -1, size)

    def _ungrouped(self, x: Tensor, heads: int) -> Tensor:
        """(B * key heads, heads of each * T, size) -> (N, heads * size)"""
        keys, size = self.shape.kv_heads, self.shape.head_dim
        split = x.reshape(self.batch, keys, heads // keys, self.length, size)
        return split.permute(0, 3, 1, 2, 4).reshape(-1, heads * size)


class FeedForward(nn.Module):
    """down(silu(gate(x)) * up(x))"""

    def __init__(self, layers: dict[str, Layer]) -> None:
        super().__init__()
        self.gate, self.up = layers["feed_forward.w1"], layers["feed_forward.w3"]
        self.down = layers["feed_forward.w2"]

    def forward(self, x: Tensor, w: Tensor) -> tuple[Tensor, Any]:
        gate, kept_gate = self.gate(x, w)
        up, kept_up = self.up(x, w)
        y, kept_down = self.down(gate * torch.sigmoid(gate) * up, w)
        return y, (gate, up, kept_gate, kept_up, kept_down)

    def backward(self, dy: Tensor, kept: Any, gradients: dict[int, Tensor]) -> Tensor:
        gate, up, kept_gate, kept_up, kept_down = kept
        inner = self.down.backward(dy, kept_down, gradients)
        share = torch.sigmoid(gate)
        d_up = inner * gate * share
        d_gate = inner * up * share * (1 + gate * (1 - share))
        return self.gate.backward(d_gate, kept_gate, gradients) + self.up.backward(
            d_up, kept_up, gradients
        )


class Block(nn.Module):
    """x + attention(norm(x)), and then x + feed_forward(norm(x))."""

    def __init__(
        self, block: Any, shape: Shape, adapters: Iterator[Adapter], options: LoraOptions
    ) -> None:
        super().__init__()
        trained = {one.kind: one for one in adapters}
        layers = {
            f"{part}.{name}": Layer(
                getattr(getattr(block, part), name),
                trained.get(f"{part}.{name}"),
                options.alpha / options.rank,
            )
            for part, names in _LINEARS.items()
            for name in names
        }
        self.attention_norm = Norm(block.attention_norm.weight, shape.norm_eps)
        self.attention = Attention(block, shape, layers, options)
        self.ffn_norm = Norm(block.ffn_norm.weight, shape.norm_eps)
        self.feed_forward = FeedForward(layers)

    def forward(self, x: Tensor, w: Tensor, tables: Tables) -> tuple[Tensor, Any]:
        attended, kept_attention = self.attention(self.attention_norm(x), w, tables)
        middle = x + attended
        fed, kept_fed = self.feed_forward(self.ffn_norm(middle), w)
        return middle + fed, (x, middle, kept_attention, kept_fed)

    def backward(
        self, dy: Tensor, kept: Any, tables: Tables, gradients: dict[int, Tensor]
    ) -> Tensor:
        x, middle, kept_attention, kept_fed = kept
        d_fed = self.feed_forward.backward(dy, kept_fed, gradients)
        dy = dy + self.ffn_norm.backward(d_fed, middle)
        d_attended = self.attention.backward(dy, kept_attention, tables, gradients)
        return dy + self.attention_norm.backward(d_attended, x)


_LINEARS = {"attention": ("wq", "wk", "wv", "wo"), "feed_forward": ("w1", "w2", "w3")}


class Tables:
    """Tensors that all blocks of a step use.

    cosines, sines  of the rotary embedding (T, head size / 2); back_sines rotate the other way
    mask            (T, T), added to scores: hides later tokens
    """

    def __init__(self, cosines: Tensor, sines: Tensor, places: Tensor) -> None:
        self.cosines, self.sines, self.back_sines = cosines, sines, -sines
        self.mask = torch.relu(places[None, :] - places[:, None]) * _HIDDEN_SCORE


class LearnStep(nn.Module):
    """The method `learn` of a model that `webpte_export.llm.model` built, and perhaps quantized."""

    def __init__(
        self, model: Any, shape: Shape, adapters: Sequence[Adapter], options: LoraOptions
    ) -> None:
        super().__init__()
        self.options = options
        self.embedding = model.tok_embeddings
        self.blocks = nn.ModuleList(
            Block(block, shape, _of_block(adapters, number), options)
            for number, block in enumerate(model.layers)
        )
        self.norm = Norm(model.norm.weight, shape.norm_eps)
        self.output = frozen_layer(model.output)
        for name in ("cosines", "sines"):
            table = getattr(model.rope, {"cosines": "freqs_cos", "sines": "freqs_sin"}[name])
            self.register_buffer(name, table[: options.length].clone())
        self.register_buffer("places", torch.arange(options.length, dtype=torch.float32))

    def forward(
        self, tokens: Tensor, targets: Tensor, settings: Tensor, w: Tensor, m: Tensor, v: Tensor
    ) -> tuple[Tensor, ...]:
        loss, gradient = self.gradient(tokens, targets, w)
        return loss, *adamw(w, m, v, gradient, settings)

    def gradient(self, tokens: Tensor, targets: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss of the targets, and the gradient of all matrices, flat."""
        tables = Tables(self.cosines, self.sines, self.places)
        x = self.embedding(tokens.reshape(-1))
        kept = []
        for block in self.blocks:
            x, one = block(x, w, tables)
            kept.append(one)
        logits = self.output(self.norm(x))
        labels = targets.reshape(-1)
        total, d_logits = torch.ops.et_vk.fused_ce(logits, labels, 1.0)
        counted = labels.ge(0).to(torch.float32).reshape(1, -1).sum(-1)
        count = torch.clamp(counted, min=1.0)
        d_last = self.output.backward(d_logits) / count
        dx, gradients = self.norm.backward(d_last, x), dict[int, Tensor]()
        for block, one in zip(reversed(self.blocks), reversed(kept), strict=True):
            dx = block.backward(dx, one, tables, gradients)
        flat = [gradients[start].reshape(-1) for start in sorted(gradients)]
        return total.reshape(1) / count, torch.cat(flat)


def _of_block(adapters: Sequence[Adapter], number: int) -> Iterator[Adapter]:
    return (one for one in adapters if f".layers.{number}." in one.name)


def adamw(
    w: Tensor, m: Tensor, v: Tensor, gradient: Tensor, settings: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return w, m and v after a step of AdamW, as PyTorch defines it."""
    rate, decay, first, second = (settings[n : n + 1] for n in range(4))
    beta1, beta2 = BETAS
    m = m * beta1 + gradient * (1 - beta1)
    v = v * beta2 + gradient * gradient * (1 - beta2)
    step = m * first / (torch.sqrt(v * second) + EPSILON)
    return w * (1 - rate * decay) - step * rate, m, v
