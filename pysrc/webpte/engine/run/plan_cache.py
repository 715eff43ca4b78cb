"""The plans of one delegate, by key and by input shapes."""

from __future__ import annotations

from collections.abc import Callable

from webpte.engine.run.device_plan import DevicePlan, PlanKey, Signature


class PlanCache:
    """A cache of plans that destroys the least recently used; never the one used last."""

    def __init__(self, destroy: Callable[[DevicePlan], None], most: int) -> None:
        self._destroy = destroy
        self._most = most
        self._plans: dict[PlanKey, DevicePlan] = {}  # least recently used first
        self._latest: dict[Signature, DevicePlan] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, key: PlanKey) -> DevicePlan | None:
        return self._plans.get(key)

    def latest(self, signature: Signature) -> DevicePlan | None:
        """Return the plan that inputs of these shapes had the last time."""
        return self._latest.get(signature)

    def use(self, plan: DevicePlan) -> None:
        """Add a plan, or note that a cached one is used again."""
        self._plans.pop(plan.key, None)
        self._plans[plan.key] = plan
        self._latest[plan.key[0]] = plan
        self._forget()

    def _forget(self) -> None:
        while len(self._plans) > self._most:
            oldest = self._plans.pop(next(iter(self._plans)))
            if self._latest.get(oldest.key[0]) is oldest:
                del self._latest[oldest.key[0]]
            self._destroy(oldest)

    def clear(self) -> None:
        for plan in self._plans.values():
            self._destroy(plan)
        self._plans, self._latest = {}, {}
