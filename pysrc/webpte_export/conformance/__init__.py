"""Runs ExecuTorch's own backend tests, and turns their programs into suites for `serve.py verify`.

    python -m webpte_export.conformance CHECKOUT OUT [--part NAME] [--filter GLOB] [--jobs N]

CHECKOUT is a source tree of ExecuTorch, of which only the tests are used: the exporter is the
installed one. No part of the tree is copied. docs/reference/conformance.md has the results.
"""

from __future__ import annotations
