"""Reads the name in a `Host` header."""

from __future__ import annotations

import re

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/@]+)(?::[0-9]{1,5})?")


def host_name(header: str) -> str | None:
    """Return the name or address in a `Host` header, without the port; None if it is malformed."""
    found = _HOST.fullmatch(header.strip())
    return None if found is None else found["name"].lower()
