"""The positions at which planned calls stay unchanged, while nothing but the position changes.

A decode step differs from the step before by its position: a SymInt, and other SymInts that are
computed from it, which kernels read from uniforms. Relower guards and bounds give the range of
positions in which every call keeps its records, so a step in that range needs no planning at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from webpte.engine.dtypes import INT32_MAX, INT32_MIN
from webpte.engine.graph.live_state import LiveState
from webpte.engine.plan.planner import PlannedCall, Planner


@dataclass(frozen=True)
class PositionRange:
    """Positions from `low` to `high`, and SymInts with their distances from the position."""

    low: int
    high: int
    offsets: dict[int, int]

    def cut(self, low: int, high: int) -> PositionRange:
        """Return the part of the range that is also from `low` to `high`."""
        return PositionRange(max(self.low, low), min(self.high, high), self.offsets)


def position_range(
    planner: Planner, live: LiveState, position: int, moving: Iterable[int]
) -> PositionRange | None:
    """Return the positions at which all calls keep their records and shapes.

    The live state must be at a position, which the SymInts `moving` follow. Returns None if a call
    may have to be lowered again at every position.
    """
    followers = _followers(planner, live, moving)
    if followers is None or planner.unsettled:
        return None
    offsets = {i: live.symint(i) - position for i in sorted(followers)}
    found = PositionRange(INT32_MIN, INT32_MAX, offsets)
    for offset in offsets.values():
        found = found.cut(INT32_MIN - offset, INT32_MAX - offset)
    for bound in planner.symint_bounds():
        if bound.value_id in offsets:
            offset = offsets[bound.value_id]
            found = found.cut(bound.low - offset, bound.high - offset)
    for index in sorted({index for i in offsets for index in planner.readers_of(i)}):
        planned = planner.calls[index]
        guard = planned.guard
        if planned.op.scalar is None and guard is not None:
            offset = offsets[guard.value_id]
            found = found.cut(guard.low - offset, guard.high - offset)
    return found


def _followers(planner: Planner, live: LiveState, moving: Iterable[int]) -> set[int] | None:
    """Return the SymInts that follow the position one to one; None if others depend on it."""
    followers = set(moving)
    for index, planned in enumerate(planner.calls):
        read = {i for i in followers if index in planner.readers_of(i)}
        if not read:
            continue
        if planned.op.scalar is None:
            if not _is_guarded(planned, live, read, followers):
                return None
        elif (moves := _moves(planned, followers)) is None:
            return None
        elif moves:
            out = planned.call.args[-1]
            if any(reader <= index for reader in planner.readers_of(out)):
                return None  # fed back to an earlier call
            followers.add(out)
    return followers


def _moves(planned: PlannedCall, followers: Collection[int]) -> bool | None:
    """Return whether a computation's result follows the position; None if it depends otherwise."""
    first, second, *_ = (value_id in followers for value_id in planned.call.args)
    if planned.op.name == "sub" and first:
        return not second
    return True if planned.op.name == "add" and first != second else None


def _is_guarded(
    planned: PlannedCall, live: LiveState, read: Iterable[int], followers: Collection[int]
) -> bool:
    """Return whether a guard covers every SymInt that a call reads."""
    guard = planned.guard
    if guard is None or not all(guard.covers(value_id) for value_id in read):
        return False
    alike = guard.follower is None or guard.follower in followers
    return guard.value_id in followers and alike and guard.holds(live.symint)
