"""Modules for developers: suites of programs, benchmarks, variants, and options for comparing."""

from __future__ import annotations

from webpte.runtime.base.options import DeveloperOptions

__all__ = ["DeveloperOptions"]
