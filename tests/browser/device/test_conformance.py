"""The browser's device keeps the promises of the protocol: see
support/devices/device_conformance.py.
"""

from __future__ import annotations

import pytest

from support.devices.device_conformance import CHECKS
from support.page.conformance_page import run_check
from support.page.page import HarnessSource


@pytest.mark.parametrize("name", CHECKS)
def test_webgpu_device(name: str, shared_harness: HarnessSource) -> None:
    run_check(shared_harness.get(), name)
