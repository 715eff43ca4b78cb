"""`Program.check` in the browser, with the examples of the samples."""

from __future__ import annotations

import pytest

from support.harness import extent
from support.page.page import python
from webpte_host.harness.browser import Harness

CHECK = """
program = await webpte.load(f"/samples/{name}.pte")
check = await program.check()
program.close()
return [check.agrees, check.device, check.variant, check.worst.used]
"""


@pytest.mark.parametrize("name", extent.some(["add", "digits"], "sigmoid", "photo", "stories"))
def test_samples_agree_with_their_examples(harness: Harness, name: str) -> None:
    agrees, device, variant, used = python(harness, CHECK, name=name)
    assert agrees
    assert device == "webgpu"
    assert variant == "as suits the adapter"
    assert used < 1
