"""Checks a run of a delegate call by call: the device against NumPy.

NumPy computes each call from the device's values of its inputs, so a difference is the call's own.
On request, NumPy also runs alone from the delegate's inputs on, which shows how differences add up.
Constants are read when a call needs them, and forgotten after it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from webpte.engine.graph.graph import Call, Graph
from webpte.engine.graph.live_state import LiveState
from webpte.engine.ops import OpDef
from webpte.engine.ops.attention.cache_packing import packing_of, unpack_whole_rows
from webpte.engine.plan.reference import run_reference
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.rewrite.validate import ConstantTransfer
from webpte.inspection.recorder import Arrays, Evidence, ValueRecorder, count_non_finite
from webpte.inspection.report.difference import Difference, Tolerance, difference

# Rounding to whole steps can go either way where two values are almost equally near.
ROUNDING = ("quantize", "q8ta", "choose_qparams", "requant")


class CallChecker:
    """Checks the calls of a run in order.

    `device` has the values that the device has computed so far, as long as a call needs them.
    """

    def __init__(
        self,
        graph: Graph,
        live: LiveState,
        given: Arrays,
        constants: Mapping[int, ConstantTransfer],
        recorder: ValueRecorder,
        place: int,
    ) -> None:
        self._graph = graph
        self._flow = Dataflow.of(graph)
        self._live = live
        self._constants = constants
        self._recorder = recorder
        self._place = place
        self.device: Arrays = dict(given)
        alone = given if recorder.drift else {}
        self._alone: Arrays = {i: array.copy() for i, array in alone.items()}
        self._last = {i: calls[-1] for i, calls in self._flow.readers.items()}
        self._kept = self._flow.state.union(graph.outputs)

    async def value(self, value_id: int) -> np.ndarray:
        """Return a value as the device has it at this point."""
        if value_id in self.device:
            return self.device[value_id]
        transfer = self._constants[value_id]
        tensor = transfer.target
        data = await transfer.constant.region.read(0, tensor.file_bytes)
        return tensor.dtype.from_bytes(data).reshape(tensor.dims)

    async def follow(self, op: OpDef, call: Call, computed: Mapping[int, np.ndarray]) -> None:
        """Check a call. `computed` has the outputs of its kernels; NumPy computes the others."""
        if op.scalar is not None:
            run_reference(op, call, self._graph, self._live, {})
            self._recorder.add_values(self._place, call.index, call.name, (0, 0), ())
            return
        if not self._recorder.judged and all(i in computed for i in self._flow.writes(call)):
            await self._take(call, computed)
            return
        flow = self._flow
        given = {i: await self.value(i) for i in flow.reads(call)}
        wanted = self._run(op, call, given)
        made = {i: computed.get(i, wanted[i]) for i in flow.writes(call)}
        own = self._worst(call, {i: (made[i], wanted[i]) for i in made if i in computed})
        drift = None
        if self._recorder.drift:
            fixed = {i: given[i] for i in given if i not in self._alone}
            alone = self._run(op, call, fixed | {i: self._alone[i] for i in given.keys() - fixed})
            self._alone |= {i: alone[i] for i in made}
            drift = self._worst(call, {i: (made[i], alone[i]) for i in made if i in computed})
        if own is not None and not own[1].agrees and self._recorder.first is None:
            output = own[0]
            self._recorder.first = Evidence(
                self._place, call, output, given, made[output], wanted[output]
            )
        self._recorder.keep(self._place, call, given, made)
        name = call.kernel or call.name
        differences = (own and own[1], drift and drift[1])
        inputs, outputs = count_non_finite(given.values()), made.values()
        self._recorder.add_values(self._place, call.index, name, inputs, outputs, differences)
        self.device |= made
        self._forget(call)

    async def _take(self, call: Call, computed: Mapping[int, np.ndarray]) -> None:
        """Record the outputs of the kernels, without computing them in NumPy."""
        made = {i: computed[i] for i in self._flow.writes(call)}
        given: Arrays = {}
        if self._recorder.wants(self._place, call):
            given = {i: await self.value(i) for i in self._flow.reads(call)}
            self._recorder.keep(self._place, call, given, made)
        counts = count_non_finite(given.values())
        name = call.kernel or call.name
        self._recorder.add_values(self._place, call.index, name, counts, made.values())
        self.device |= made
        self._forget(call)

    def _run(self, op: OpDef, call: Call, given: Arrays) -> Arrays:
        """Compute a call in NumPy; inputs that the call changes in place are copied first."""
        changed = self._flow.changes(call)
        arrays = {i: array.copy() if i in changed else array for i, array in given.items()}
        run_reference(op, call, self._graph, self._live, arrays)
        return arrays

    def _worst(
        self, call: Call, pairs: Mapping[int, tuple[np.ndarray, np.ndarray]]
    ) -> tuple[int, Difference] | None:
        """Return the output with the largest difference, and the difference."""
        found = [(i, self._difference(call, i, *pair)) for i, pair in pairs.items()]
        return max(found, key=lambda each: (each[1].wrong, each[1].max_abs), default=None)

    def _difference(
        self, call: Call, value_id: int, made: np.ndarray, wanted: np.ndarray
    ) -> Difference:
        packing = packing_of(self._graph.tensor(value_id).dtype)
        if packing is None:
            return difference(made, wanted, self._tolerance(call, made))
        # A small difference may be rounded to the next number of a packed cache.
        floats = unpack_whole_rows(wanted, packing)
        tolerance = self._recorder.tolerance
        allowed = Tolerance(tolerance.rtol, max(packing.largest_step(floats), tolerance.atol))
        return difference(unpack_whole_rows(made, packing), floats, allowed)

    def _tolerance(self, call: Call, made: np.ndarray) -> Tolerance:
        tolerance = self._recorder.tolerance
        if made.dtype.kind in "iu" and any(word in call.name for word in ROUNDING):
            return Tolerance(tolerance.rtol, max(1.0, tolerance.atol))
        return tolerance

    def _forget(self, call: Call) -> None:
        """Forget the values that no later call reads."""
        for value_id in (*self._flow.reads(call), *self._flow.writes(call)):
            if self._last.get(value_id, -1) <= call.index and value_id not in self._kept:
                self.device.pop(value_id, None)
                self._alone.pop(value_id, None)
