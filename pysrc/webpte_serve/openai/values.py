"""Reads request fields one by one; unknown fields are an error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from webpte.engine.files.json_reader import shown
from webpte.errors import InputError

_MISSING = object()
_LARGEST = 1 << 63
_KINDS = {str: "a string", list: "a list", dict: "an object", bool: "true or false"}


def brief(text: str, most: int = 1000) -> str:
    """Return a text with its middle left out if it is longer than `most`."""
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


class RequestError(InputError):
    """A request that cannot be answered.

    param   the parameter that is wrong, or None
    status  the HTTP status
    code    the API's name for the error, or None
    """

    def __init__(
        self, message: str, param: str | None = None, status: int = 400, code: str | None = None
    ) -> None:
        # Both may quote a request, which may be long.
        message, param = brief(message), None if param is None else brief(param)
        super().__init__(message if param is None else f"{param}: {message}")
        self.param, self.status, self.code = param, status, code

    @property
    def body(self) -> dict[str, Any]:
        """Return the error in the API's form."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        told = {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        return {"error": told}


class RequestReader:
    """Takes the parameters of a request; null counts as absent."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        if not isinstance(body, Mapping):
            raise RequestError("a request is a JSON object")
        self._left = dict(body)

    def take(self, name: str, kind: type | tuple[type, ...], default: Any = _MISSING) -> Any:
        """Return a parameter of a kind, or its default."""
        value = self._left.pop(name, None)
        if value is None:
            if default is _MISSING:
                raise RequestError("must be given", name)
            return default
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(_KINDS[one] for one in kinds)
            raise RequestError(f"must be {wanted}, not {shown(value)}", name)
        return value

    def number(
        self, name: str, kind: type[int] | type[float], default: Any, low: Any, high: Any
    ) -> Any:
        """Return a number from `low` to `high`, which may be None, or the default."""
        value = self._left.pop(name, None)
        if value is None:
            return default
        kinds = (int,) if kind is int else (int, float)
        # A large integer has no float; the comparison excludes infinities and NaN, too.
        ok = isinstance(value, kinds) and not isinstance(value, bool) and abs(value) < _LARGEST
        if not ok or (low is not None and value < low) or (high is not None and value > high):
            least = "" if low is None else f" from {low}"
            most = "" if high is None else f" to {high}"
            word = "an integer" if kind is int else "a number"
            raise RequestError(f"must be {word}{least}{most}, not {shown(value)}", name)
        return value

    def ignore(self, name: str) -> None:
        self._left.pop(name, None)

    def refuse(self, name: str, neutral: Collection[Any], why: str) -> None:
        """Refuse a parameter unless it is null, or has a value that changes nothing."""
        value = self._left.pop(name, None)
        if value is not None and value not in neutral:
            raise RequestError(why, name, code="unsupported_parameter")

    def finish(self) -> None:
        """Refuse parameters that were not taken."""
        for name in self._left:
            raise RequestError("there is no such parameter", str(name), code="unknown_parameter")
