"""The promises of a device, as checks that every device has to pass.

`CHECKS` has them by name; each takes a `Subject` with a fresh device. docs/use/native.md says in
words the promises. This also runs in a page.
"""

from __future__ import annotations

from support.devices import device_buffer_checks, device_plan_checks
from support.devices.device_fixture import Check

CHECKS: dict[str, Check] = {**device_buffer_checks.CHECKS, **device_plan_checks.CHECKS}
