"""The choice of cases: all or some, and their order."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass

from webpte_export.conformance.parts import Case

# Multiples of it, less whole numbers, are spread evenly however many there are.
_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class CaseSelection:
    """The cases whose id matches a pattern, or `most` of them."""

    pattern: str = "*"
    most: int | None = None

    def of(self, cases: Iterable[Case]) -> list[Case]:
        """Return the chosen cases, in the order in which they are exported."""
        matching = spread(case for case in cases if fnmatch.fnmatch(case.id, self.pattern))
        return matching[: self.most]


def spread(cases: Iterable[Case]) -> list[Case]:
    """Sort cases so that any number of the first is an even sample of every operator.

    The first case of every operator comes first, then another of each. The second and all others
    are taken from all over the operator's cases, which have the same model in every flow together.
    """
    by_op: dict[str, list[Case]] = {}
    for case in cases:
        by_op.setdefault(case.op, []).append(case)
    ranked = []
    for group in by_op.values():
        order = sorted(range(len(group)), key=lambda at: at * _GOLDEN % 1)
        ranked += [(rank, group[at]) for rank, at in enumerate(order)]
    return [case for _, case in sorted(ranked, key=lambda pair: pair[0])]
