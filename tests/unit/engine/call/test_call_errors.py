"""Errors inside of a call name its place, and keep their class."""

from __future__ import annotations

import pytest

from webpte import errors
from webpte.engine.call.call import executing


@pytest.mark.parametrize(
    ("raised", "kind", "told"),
    [
        (errors.InputError("too long"), errors.InputError, "too long"),
        (errors.ClosedError("was closed"), errors.ClosedError, "was closed"),
        (errors.DeviceLostError("gone"), errors.DeviceLostError, "method 'm': gone"),
        (errors.OutOfMemoryError("full"), errors.OutOfMemoryError, "method 'm': full"),
        (errors.GraphError("shapes"), errors.ExecutionError, "method 'm': shapes"),
        (errors.ConstantError("bytes"), errors.ExecutionError, "method 'm': bytes"),
        (ValueError("odd"), errors.ExecutionError, "method 'm': odd"),
        (MemoryError(), errors.ExecutionError, "method 'm': MemoryError"),
    ],
)
def test_what_is_raised(raised: Exception, kind: type[Exception], told: str) -> None:
    with pytest.raises(errors.WebpteError) as caught, executing("m"):
        raise raised
    assert (type(caught.value), str(caught.value)) == (kind, told)
    assert raised in (caught.value, caught.value.__cause__)


def test_who_leaves_is_not_held_up() -> None:
    with pytest.raises(KeyboardInterrupt), executing("m"):
        raise KeyboardInterrupt
