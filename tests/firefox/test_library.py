"""The library in Firefox: a file that is opened again while its first copy is being written."""

from __future__ import annotations

from support.page.kept_twice import KEPT, KEPT_TWICE
from support.page.page import python
from webpte_host.harness.browser import Harness
from webpte_host.serving.server import Site


def test_a_file_is_opened_again_while_it_is_written(harness: Harness, site: Site) -> None:
    assert python(harness, KEPT_TWICE, site=site.url) == KEPT
