"""Runs ExecuTorch's own backend tests, and turns their programs into suites for `serve.py verify`.

    python -m webpte_export.conformance CHECKOUT OUT [--part NAME] [--filter GLOB] [--most N]

CHECKOUT is a source tree of ExecuTorch, used for its tests only: the exporter is the installed
package. No part of the tree is copied. docs/reference/conformance.md has the results.
"""

from __future__ import annotations
