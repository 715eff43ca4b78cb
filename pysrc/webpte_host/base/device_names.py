"""The option `--device` of commands."""

from __future__ import annotations

import argparse
from collections.abc import Callable

NATIVE_HELP = "native:WHICH is one of several GPUs: see `serve.py devices`"


def device_name(*kinds: str) -> Callable[[str], str]:
    """Return a type for argparse: the name of a device of these kinds."""

    def check(text: str) -> str:
        kind, _, which = text.partition(":")
        if kind not in kinds or (":" in text and not (kind == "native" and which)):
            known = ", ".join(kinds)
            raise argparse.ArgumentTypeError(f"no device {text!r}; there are {known}")
        return text

    return check
