"""Drives ExecuTorch's own backend tests: what they export becomes suites for `serve.py verify`.

    python -m webpte_export.conformance CHECKOUT OUT [--part NAME] [--filter GLOB] [--jobs N]

CHECKOUT is a source tree of ExecuTorch, of which only the tests are used: the exporter is the one
that is installed. Nothing of it is copied. docs/conformance.md has the results.
"""

from __future__ import annotations
