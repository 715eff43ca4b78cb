"""Portable kernels in NumPy, for operators outside of delegates.

Importing this package imports every module in it, and so fills the registry.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from webpte.engine.portable.eager import CallBuilder
from webpte.engine.portable.hosted import why_hosted
from webpte.engine.portable.registry import (
    MOVED,
    OutSpec,
    PortableKernel,
    check_shape,
    fit_output,
    kernel_names,
    lookup_kernel,
)

__all__ = [
    "MOVED",
    "CallBuilder",
    "OutSpec",
    "PortableKernel",
    "check_shape",
    "fit_output",
    "kernel_names",
    "lookup_kernel",
    "why_hosted",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
