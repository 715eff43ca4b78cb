"""The browser's device keeps the promises of the protocol: see support/device_conformance.py."""

from __future__ import annotations

import pytest

from support.conformance_page import run_check
from support.device_conformance import CHECKS
from support.page import HarnessSource


@pytest.mark.parametrize("name", CHECKS)
def test_webgpu_device(name: str, shared_harness: HarnessSource) -> None:
    run_check(shared_harness.get(), name)
