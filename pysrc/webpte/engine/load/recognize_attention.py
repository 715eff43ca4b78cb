"""Recognizes attention of which a file expresses parts by masks and single calls.

A window that is a mask over the whole cache becomes an argument of the attention: its kernels then
read the keys in the window alone, and the state is known to follow the position, so steps can be
decoded ahead. Attention with a soft cap has no operator in the file: two batched GEMMs, with a
tanh, a mask and a softmax between them, become the attention that also writes the cache. So does
attention after two calls that write its caches, which fusions then find as in files for Vulkan.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from webpte.engine.format.vulkan import (
    BoolValue,
    DoubleValue,
    IntValue,
    NullValue,
)
from webpte.engine.graph.graph import Call, Graph, Tensor, Value
from webpte.engine.load.recognizer import Recognizer
from webpte.engine.load.visible_keys import WHERE, RelativeKeys, VisibleKeys
from webpte.engine.ops import definition_of
from webpte.engine.ops.move.symint import SELECT_AS_SYMINT

WITH_CACHE, CACHE_ONLY = "sdpa_with_kv_cache.default", "custom_sdpa.default"
UPDATE, BMM, TANH = "update_cache.default", "aten.bmm.default", "aten.tanh.default"
SOFTMAX, MUL, DIV = "aten._softmax.default", "aten.mul.Tensor", "aten.div.Tensor"
PERMUTE, SELECT = "aten.permute_copy.default", "aten.select_copy.int"
VIEW, EXPAND = "aten.view_copy.default", "aten.expand_copy.default"
UNSQUEEZE = "aten.unsqueeze_copy.default"
HIDDEN = -1e9  # a score of at most this has no weight beside a score within a soft cap
MOST_CAP = 1e4


def has_attention(graph: Graph) -> bool:
    """Return whether a graph has calls that `AttentionRecognizer` may replace."""
    names = {_name(call) for call in graph.calls}
    return bool(names & {WITH_CACHE, CACHE_ONLY}) or {UPDATE, TANH, BMM} <= names


def _name(call: Call) -> str:
    op = definition_of(call)
    return call.name if op is None else op.name


class AttentionRecognizer(Recognizer):
    """A recognizer of windows, soft caps, and writes to caches."""

    def visit(self, call: Call) -> None:
        """Rewrite a call if it is attention with something recognized."""
        name = _name(call)
        if name in (WITH_CACHE, CACHE_ONLY):
            self._name_window(call)
            if name == CACHE_ONLY:
                self._join_writes(self.replaced.get(call.index) or call)
        elif name == BMM:
            self._name_cap(call)

    # Windows

    def _name_window(self, call: Call) -> None:
        """Replace a mask over the whole cache by causal attention with a window."""
        positions = {name: at for name, at in _positions(call).items() if at < len(call.args) - 1}
        if "attn_mask" not in positions or _positions(call)["window"] in positions.values():
            return
        mask = call.args[positions["attn_mask"]]
        cache = self.graph.tensor(call.args[positions["k_cache"]])
        query = self.graph.tensor(call.args[positions["query"]])
        start = self._start_of(call.args[positions["input_pos"]])
        shaped = isinstance(self.graph.value(mask), Tensor) and start is not None
        if not shaped or self.graph.tensor(mask).dims != (query.dims[1], cache.dims[1]):
            return
        assert start is not None
        keys = VisibleKeys(self.graph, self.scalars, start, cache.dims[1])
        boolean = self.graph.tensor(mask).dtype.name == "bool"
        window = _window(keys.seen(mask) if boolean else keys.shown(mask), cache.dims[1])
        if window is None:
            return
        changed: dict[str, Value] = {
            "attn_mask": NullValue(),
            "is_causal": BoolValue(True),
            "window": IntValue(window),
        }
        self.replaced[call.index] = self._with(call, changed)

    def _with(self, call: Call, changed: Mapping[str, Value]) -> Call:
        """Return a call with other arguments, and with the new arguments before them."""
        positions, args = _positions(call), list(call.args[:-1])
        defaults: dict[str, Value] = {"dropout_p": IntValue(0), "is_causal": BoolValue(False)}
        last = max(positions[name] for name in changed)
        names = {at: name for name, at in positions.items()}
        for at in range(last + 1):
            name = names[at]
            if at >= len(args):
                args.append(self.add(changed.get(name, defaults.get(name, NullValue()))))
            elif name in changed:
                args[at] = self.add(changed[name])
        return replace(call, args=(*args, call.args[-1]))

    def _start_of(self, position: int) -> int | None:
        """Return the tensor whose first element is the given live position."""
        writers = [self.graph.calls[i] for i in self.flow.writers.get(position, ())]
        if len(writers) != 1 or writers[0].name != SELECT_AS_SYMINT:
            return None
        source, dim, at = writers[0].args[:3]
        first = self.ints(dim) == self.ints(at) == (0,)
        given = source in self.graph.inputs and self.graph.tensor(source).dims == (1,)
        return source if first and given else None

    # Writes to caches

    def _join_writes(self, call: Call) -> None:
        """Let attention write its caches, if two calls do that for it alone."""
        query, keys, values, position, *more = call.args
        updates = [self._only_update(cache) for cache in (keys, values)]
        if updates[0] is None or updates[1] is None or keys == values:
            return
        new = [update.args[0] for update in updates if update is not None]
        places = {update.args[2] for update in updates if update is not None}
        tokens = {self.dims(value_id)[:2] for value_id in (query, *new)}
        if places != {position} or len(tokens) > 1 or self.dims(new[0]) != self.dims(new[1]):
            return
        if not self.is_steady(*new):
            return
        self.replaced |= {update.index: None for update in updates if update is not None}
        args = (query, *new, keys, values, position, self.add(IntValue(1)), *more)
        self.replaced[call.index] = replace(call, name=WITH_CACHE, args=args)

    # Soft caps

    def _name_cap(self, last: Call) -> None:
        """Replace attention that is written out, from the scores to the weighted sum of values."""
        weights, values = self.writer(last.args[0], SOFTMAX), self._cache(last.args[1])
        end = self._end(last)
        if weights is None or values is None or end is None or self.ints(weights.args[1]) != (-1,):
            return
        masked = self.writer(weights.args[0], WHERE)
        if masked is None or self.scalars.get(masked.args[2], 0.0) > HIDDEN:
            return
        capped = self._capped(masked.args[1])
        first = None if capped is None else self.writer(capped[0], BMM)
        if capped is None or first is None:
            return
        keys = self._cache(first.args[1], turned=True)
        query = self._query(first.args[0])
        if keys is None or query is None:
            return
        updates = [self._only_update(cache) for cache in (keys, values)]
        if updates[0] is None or updates[1] is None or updates[0] is updates[1]:
            return
        window = self._window_of(masked.args[0], query[0], keys, updates[0].args[2])
        same = updates[0].args[2] == updates[1].args[2]
        if window is None or not same or not self._is_alike(query[0], keys, values, end.args[-1]):
            return
        if not self.is_steady(query[0], *(update.args[0] for update in updates if update)):
            return
        made = (NullValue(), IntValue(0), BoolValue(True), DoubleValue(query[1]), IntValue(window))
        added = [self.add(value) for value in (*made, DoubleValue(capped[1]))]
        args = (
            *(query[0], updates[0].args[0], updates[1].args[0], keys, values),
            *(updates[0].args[2], self.add(IntValue(1)), *added, end.args[-1]),
        )
        self.replaced |= {update.index: None for update in updates if update is not None}
        self.replaced[end.index] = replace(end, name=WITH_CACHE, args=args)

    def _window_of(self, seen: int, query: int, cache: int, position: int) -> int | None:
        start = self._start_of(position)
        count = self.graph.tensor(cache).dims[1]
        tokens = self.graph.tensor(query).dims[1]
        if start is None or self.graph.tensor(seen).dims != (tokens, count):
            return None
        return _window(VisibleKeys(self.graph, self.scalars, start, count).seen(seen), count)

    def _is_alike(self, query: int, keys: int, values: int, out: int) -> bool:
        tensors = [self.graph.tensor(i) for i in (query, keys, values, out)]
        q, k, v, end = (tensor.dims for tensor in tensors)
        sizes = len(q) == len(k) == 4 and q == end and k == v and (q[0], q[3]) == (k[0], k[3])
        return sizes and len({tensor.dtype for tensor in tensors}) == 1

    def _capped(self, value_id: int) -> tuple[int, float] | None:
        """Return x and c of a value that is c * tanh(x / c)."""
        times = self._scaled(value_id)
        tanh = None if times is None else self.writer(times[0], TANH)
        parts = None if tanh is None else self._scaled(tanh.args[0])
        if times is None or parts is None:
            return None
        cap = times[1]
        same = math.isclose(cap * parts[1], 1, rel_tol=1e-6)
        return (parts[0], cap) if same and 0 < cap <= MOST_CAP else None

    def _scaled(self, value_id: int) -> tuple[int, float] | None:
        """Return a tensor and the number by which it is multiplied."""
        call = self.writer(value_id, MUL) or self.writer(value_id, DIV)
        number = None if call is None else self.scalars.get(call.args[1])
        if call is None or number is None or number == 0:
            return None
        return call.args[0], number if call.name == MUL else 1 / number

    def _query(self, value_id: int) -> tuple[int, float] | None:
        """Return the query [1, tokens, heads, size] of a GEMM, and its scale."""
        picked = self.writer(value_id, SELECT)
        if picked is None or not self._is_first(picked):
            return None
        scaled = self._scaled(picked.args[0]) or (picked.args[0], 1.0)
        turned = self.writer(scaled[0], PERMUTE)
        if turned is None or self.ints(turned.args[1]) != (0, 2, 1, 3):
            return None
        return turned.args[0], scaled[1]

    def _cache(self, value_id: int, turned: bool = False) -> int | None:
        """Return the cache [1, positions, key heads, size] whose heads a GEMM reads, repeated."""
        if turned:
            call = self.writer(value_id, PERMUTE)
            if call is None or self.ints(call.args[1]) != (0, 2, 1):
                return None
            value_id = call.args[0]
        view = self.writer(value_id, VIEW)
        if view is not None:
            spread = self.writer(view.args[0], EXPAND)
            apart = None if spread is None else self.writer(spread.args[0], UNSQUEEZE)
            if spread is None or apart is None or self.ints(apart.args[1]) != (1,):
                return None
            heads, _, *rest = self.dims(spread.args[-1])
            if self.dims(apart.args[0]) != (heads, *rest):
                return None
            if self.dims(view.args[-1])[1:] != tuple(rest):
                return None
            value_id = apart.args[0]
        call = self.writer(value_id, PERMUTE)
        picked = None if call is None else self.writer(call.args[0], SELECT)
        if call is None or picked is None or self.ints(call.args[1]) != (1, 0, 2):
            return None
        cache = picked.args[0]
        is_state = cache in self.flow.state and len(self.dims(cache)) == 4
        return cache if is_state and self._is_first(picked) else None

    def _only_update(self, cache: int) -> Call | None:
        """Return the update of a cache that only the update and one later call use."""
        users = [self.graph.calls[i] for i in self.flow.readers.get(cache, ())]
        if len(users) != 2 or cache in self.graph.outputs:
            return None
        update, reader = users
        if _name(update) != UPDATE or update.args[1] != cache or _name(reader) == UPDATE:
            return None
        return None if self.flow.readers.get(update.args[-1]) else update

    def _end(self, last: Call) -> Call | None:
        """Return the call that gives the result as [1, tokens, heads, size]."""
        turned = self.only_reader(last.args[-1], PERMUTE)
        if turned is None or self.ints(turned.args[1]) != (1, 0, 2):
            return None
        end = self.only_reader(turned.args[-1], UNSQUEEZE)
        return end if end is not None and self.ints(end.args[1]) == (0,) else None

    # Calls and values

    def _is_first(self, select: Call) -> bool:
        return self.ints(select.args[1]) == self.ints(select.args[2]) == (0,)


def _window(seen: RelativeKeys | None, keys: int) -> int | None:
    """Return the window of a causal mask, 0 for a mask without window, None for any other mask."""
    if seen is None or seen.others or seen.low != 0 or seen.high < 0:
        return None
    return 0 if seen.high >= keys - 1 else int(seen.high) + 1


def _positions(call: Call) -> Mapping[str, int]:
    op = definition_of(call)
    assert op is not None, "see AttentionRecognizer.visit"
    return op.signature.positions
