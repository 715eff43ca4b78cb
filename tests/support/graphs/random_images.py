"""Random graphs of convolutions and of attention with their neighbours: see random_graphs."""

from __future__ import annotations

import numpy as np

from support.graphs.conv_graphs import CLAMPED, PAD, PLAIN, prelu
from support.graphs.encoder_graphs import SPLIT
from support.graphs.fusion_graphs import Heads, attention, attention_steps
from support.graphs.random_graphs import KINDS, Array, RandomGraph, Walk, rows

CHANNELS = (1, 3, 4, 6, 8, 12, 20)


class Images(Walk):
    """A walk over convolutions of [batch, channels, height, width], or of lines."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kind = "float"
        self.rank = self.random.choice((1, 2, 2, 2))
        sizes = [self.random.randint(1, 11) for _ in range(self.rank)]
        batch, channels = self.random.choice((1, 1, 2)), self.random.choice(CHANNELS)
        if batch > 1 and self.chance(0.4):
            self.live = (batch, (-2 - self.rank,))
        self.kept(self.input(batch, channels, *sizes))

    def padded(self, x: int) -> int:
        """Write a padding, mostly of zeros; also of other values, negative, or over channels."""
        pairs = [self.random.choice((0, 0, 1, 2)) for _ in range(2 * self.rank)]
        if self.chance(0.1):
            pairs[0] = -1
        if self.chance(0.1):
            pairs += [0, 1]
        dims = list(self.dims(x))
        for i, n in enumerate(pairs):
            dims[-1 - i // 2] += n
        value = self.g.double(0.5 if self.chance(0.1) else 0.0)
        return self.g.op(PAD, x, self.g.int_list(pairs), value, self.g.tensor(tuple(dims)))

    def conv(self, x: int) -> int:
        x = self.padded(x) if self.chance(0.5) else x
        if self.chance(0.05):
            self.kept(x)
        g, (batch, channels, *sizes) = self.g, self.dims(x)
        groups = self.random.choice((1, 1, 1, channels))
        outs = self.random.choice(CHANNELS) if groups == 1 else channels
        side = self.random.choice([n for n in (1, 1, 2, 3, 3) if n <= min(sizes)] or [1])
        stride, padding = self.random.choice((1, 1, 2)), self.random.choice((0, side // 2))
        flipped = self.chance(0.1)
        each = (channels, outs // groups) if flipped else (outs, channels // groups)
        weight = self.floats(*each, *[side] * self.rank) / np.float32(side * channels**0.5)
        out = [
            (n - 1) * stride - 2 * padding + side
            if flipped
            else (n + 2 * padding - side) // stride + 1
            for n in sizes
        ]
        if min(out) < 1:
            return x
        lists = [g.int_list([n] * self.rank) for n in (stride, padding, 1)]
        bias = self.constant(self.floats(outs)) if self.chance(0.6) else g.null()
        rest = (g.bool_(flipped), g.int_list([0] * self.rank), g.int(groups))
        clamped = self.chance(0.15)
        bounds = (g.double(-0.25), g.double(0.5)) if clamped else ()
        given = (x, self.constant(weight), bias, *lists, *rest, *bounds)
        return g.op(CLAMPED if clamped else PLAIN, *given, g.tensor((batch, outs, *out)))

    def residual(self, x: int) -> int:
        """Return a residual of the same dims, or with fewer channels, padded with zeros."""
        dims = self.dims(x)
        if dims[1] < 2 or self.chance(0.6):
            return self.combine(x)
        missing = self.random.randint(1, dims[1] - 1)
        short = self.input(dims[0], dims[1] - missing, *dims[2:])
        pairs = self.g.int_list([*[0] * (2 * self.rank), 0, missing])
        longer = self.g.op(PAD, short, pairs, self.g.double(0.0), self.like(x))
        return self.binary("add", x, longer)

    def sloped(self, x: int) -> int:
        if len(self.dims(x)) == 4 and self.rank == 2 and self.chance(0.8):
            return prelu(self, x, threshold=0.0 if self.chance(0.8) else 0.25)
        return self.bend(x)

    def grow(self) -> None:
        source = self.recent()
        found = self.conv(source if len(self.dims(source)) == self.rank + 2 else self.given[0])
        if self.chance(0.1):
            self.kept(found)
        if self.chance(0.2):
            self.kept(self.reshape(found, -1))
        steps = (self.residual, self.bend, self.sloped)
        for _ in range(self.random.randint(0, 2)):
            found = self.random.choice(steps)(found)
            if self.chance(0.1):
                self.kept(found)
        whole = len(self.dims(found)) == self.rank + 2
        self.kept(found if whole else self.bend(found))
        if not whole:
            self.pool.append(self.given[0])


def images(seed: int) -> RandomGraph:
    walk = Images(seed)
    for _ in range(walk.random.randint(1, 3)):
        walk.grow()
    return walk.finished("images")


class Scores(Walk):
    """A walk over attention that is written out, and near misses of it."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.kind, pick = "float", self.random.choice
        self.batch, self.heads, self.size = pick((1, 1, 2)), pick((1, 2, 3)), pick((4, 8, 12, 6))
        self.tokens, self.keys = pick((1, 2, 8, 9, 17)), pick((1, 2, 7, 9, 130))
        self.values = pick((self.size, 4, 20, 3))
        # The live axis is identified by a size that no other dim has.
        others = {1, 2, 3, 4, 6, self.size, self.values}
        if self.chance(0.4) and self.keys not in {*others, self.tokens}:
            self.live = (self.keys, (-2, -1))
        elif self.chance(0.4) and self.tokens not in {*others, self.keys}:
            self.live = (self.tokens, (-2,))

    def sized(self, x: int, *dims: int) -> int:
        """Write a view with -1 for the live size."""
        live = None if self.live is None else self.live[0]
        axes = [a for a in (-1, -2, -3) if len(dims) >= -a and dims[a] == live]
        return self.reshape(
            x, *(-1 if axes and i == len(dims) + axes[0] else n for i, n in enumerate(dims))
        )

    def apart(self, x: int, count: int, size: int) -> int:
        """Split heads: [B, T, H * D] to [B * H, T, D]."""
        lined = self.sized(x, self.batch, count, self.heads, size)
        return self.sized(self.permute(lined, 0, 2, 1, 3), self.batch * self.heads, count, size)

    def scaled(self, x: int) -> int:
        if self.chance(0.5):
            return x
        number = self.constant(np.full(self.random.choice([(1,), (1, 1)]), 0.4, np.float32))
        if self.chance(0.3):
            return self.op("aten.div.Tensor", x, number, like=x)
        pair = (x, number) if self.chance(0.5) else (number, x)
        return self.op("aten.mul.Tensor", *pair, like=x)

    def masked(self, x: int) -> int:
        if self.chance(0.4):
            return x
        dims = [n if self.chance(0.6) else 1 for n in self.dims(x)]
        mask = self.input(*dims[self.random.choice((0, 0, 1)) :])
        return self.binary("add", x, mask)

    def write(self) -> int:
        b, h, t, s = self.batch, self.heads, self.tokens, self.keys
        sizes = ((t, self.size), (s, self.size), (s, self.values))
        if self.chance(0.3) and (t, self.size) == (s, self.values):
            whole, parts = self.input(b, t, 3 * h * self.size), [h * self.size] * 3
            q, k, v = outs = [self.g.tensor((b, t, n)) for n in parts]
            split = (self.g.int_list(parts), self.g.int(-1), self.g.value_list(outs))
            self.g.op(SPLIT, whole, *split)
        else:
            q, k, v = (self.input(b, n, h * size) for n, size in sizes)
        left, right, last = (self.apart(x, *pair) for x, pair in zip((q, k, v), sizes, strict=True))
        left, right = self.scaled(left), self.permute(self.scaled(right), 0, 2, 1)
        scores = self.bmm(left, right)
        if self.chance(0.7):
            scores = self.sized(scores, b, h, t, s)
        elif self.chance(0.2) and t % 2 == 0 and self.live is None:
            scores = self.sized(scores, b * h, t // 2, 2 * s)
        scores = self.masked(self.scaled(scores))
        if self.chance(0.1):
            self.kept(scores)
        weights = self.softmax(scores, -1 if self.chance(0.9) else 0)
        if len(self.dims(weights)) > 4:
            return weights
        if int(np.prod(self.dims(weights))) != b * h * t * s:
            return weights
        weights = self.sized(weights, b * h, t, s)
        if self.chance(0.2) and t % 2 == 0 and self.live is None:
            weights, t, h = self.sized(weights, b * h * 2, t // 2, s), t // 2, 2 * h
            last = self.input(b * h, s, self.values)
        out = self.bmm(weights, last)
        if self.chance(0.8):
            back = self.permute(self.sized(out, b, h, t, self.values), 0, 2, 1, 3)
            out = self.sized(back, b, t, h * self.values)
        return self.bend(out) if self.chance(0.3) else out


def scores(seed: int) -> RandomGraph:
    walk = Scores(seed)
    walk.kept(walk.write())

    def hide(array: Array) -> None:
        if array.ndim > 1 and array.shape[-1] == walk.keys and walk.chance(0.7):
            array[array > 0.7] = -np.inf

    return walk.finished("scores", hide)


def cached(seed: int) -> RandomGraph:
    """Build a random attention with a cache, and the ops before it."""
    walk = Walk(seed)
    pick, key_heads = walk.random.choice, walk.random.choice((1, 2, 3))
    size, half = pick((4, 8, 12, 20, 6)), walk.chance(0.5)
    turned = pick([n for n in (4, 8, 12, 20) if n <= size]) if half else 0
    heads = Heads(pick((1, 2, 3, 5)), key_heads * pick((1, 2, 4)), key_heads, size, half, turned)
    kind = pick(KINDS)
    net = attention(heads, kind, norm=walk.chance(0.7))
    loose = 3e-2 if kind == "rounded" else 2e-4
    return RandomGraph(f"cached {kind}", net.g, attention_steps(net, heads), loose)


MAKERS = (rows, rows, images, scores, cached)


def random_graph(seed: int) -> RandomGraph:
    return MAKERS[seed % len(MAKERS)](seed)
