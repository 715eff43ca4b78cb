"""`python -m webpte_export.conformance`: see the package."""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from webpte_export.conformance.parts import PARTS
from webpte_export.conformance.sample import CaseSelection
from webpte_export.conformance.table import failures, table
from webpte_export.errors import ExportError


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="webpte_export.conformance", description=__doc__)
    parser.add_argument("checkout", type=Path, nargs="?", help="a source tree of ExecuTorch")
    parser.add_argument("out", type=Path, help="the folder for the suites, one per part")
    parser.add_argument(
        "--table", action="store_true", help="only print the table of the results in OUT"
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; repeatable")
    parser.add_argument("--filter", default="*", metavar="GLOB", help="only cases with this id")
    parser.add_argument(
        "--most", type=int, metavar="N", help="only N cases of a part, spread over its files"
    )
    parser.add_argument("--jobs", type=int, default=1, help="parallel exports")
    parser.add_argument("--seconds", type=float, default=300, help="time limit of a case")
    given = parser.parse_args(arguments)
    if given.table:
        print(table(given.out, PARTS), *failures(given.out, PARTS), sep="\n")
        return 0
    if given.checkout is None:
        parser.error("name a source tree of ExecuTorch, and the folder for the suites")
    try:
        for part in given.part or PARTS:
            chosen = CaseSelection(given.filter, given.most)
            export_part(part, given.checkout, given.out, chosen, given.jobs, given.seconds)
    except ExportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def export_part(
    part: str, checkout: Path, out: Path, chosen: CaseSelection, jobs: int, seconds: float
) -> None:
    import torch

    from webpte_export.conformance.capture import Recorder
    from webpte_export.conformance.checkout import use_checkout
    from webpte_export.conformance.parts import import_torchvision
    from webpte_export.conformance.runner import Folder, export_cases
    from webpte_export.exporter_patches import fewer_collections, patch_exporter

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)  # children are forked, which does not copy threads
    tests = PARTS[part]
    backends = use_checkout(checkout, tests.folder)
    # Before the patch that hides a broken torchvision; the declarations last while this runs.
    _declared = import_torchvision() if tests.torchvision else None
    patch_exporter()
    recorder = Recorder(runs=tests.runs)
    recorder.listen()
    cases = chosen.of(tests.cases(backends))
    keep_what_exports_share()
    with fewer_collections():
        export_cases(cases, Folder(out / part), recorder, jobs=jobs, seconds=seconds)


def keep_what_exports_share() -> None:
    """Build tables that all exports share, which take more than half of a small export's time."""
    import functools

    import torch._export.utils as utils
    from executorch.backends.vulkan.patterns import fusable_patterns
    from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

    # No libraries are loaded from here on, so no operators are added.
    collect = functools.cache(utils._collect_all_valid_cia_ops_for_namespace)
    utils._collect_all_valid_cia_ops_for_namespace = collect
    utils._collect_all_valid_cia_ops()
    register_kernels_faster()
    look_for_batch_norms_first()
    for entry in fusable_patterns.values():
        if entry.get_graphs_fn is not None:
            entry.get_graphs_fn()
    bilinear_2d.get_graphs()
    sdpa.get_graphs()


def register_kernels_faster() -> None:
    """Shorten PyTorch's registration of kernels in Python: 6,000 per decomposition table.

    PyTorch's function evaluates annotations at every call, which takes most of the time of a table.
    """
    import torch._ops as ops

    by_name = ops.OperatorBase.py_impl

    def py_impl(operator: Any, key: Any) -> Any:
        if not isinstance(key, ops.DispatchKey) or key == ops.DispatchKey.Python:
            return by_name(operator, key)

        def register(kernel: Any) -> Any:
            if key in operator.py_kernels:
                raise RuntimeError(f"{operator.name()} has a kernel for {key} already")
            operator.py_kernels[key] = kernel
            operator._dispatch_cache.clear()
            return kernel

        return register

    ops.OperatorBase.py_impl = py_impl


def look_for_batch_norms_first() -> None:
    """Shorten XNNPACK's quantizer, which exports 12 patterns of batch norms for every model.

    The patterns take three quarters of the export of a small model, and match nothing in a model
    without batch norms.
    """
    import executorch.backends.xnnpack.quantizer.xnnpack_quantizer_utils as utils

    annotate = utils._do_annotate_conv_bn

    def annotate_conv_bn(model: Any, *args: Any, **kwargs: Any) -> Any:
        if any("batch_norm" in str(node.target) for node in model.graph.nodes):
            return annotate(model, *args, **kwargs)
        return []

    utils._do_annotate_conv_bn = annotate_conv_bn


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
