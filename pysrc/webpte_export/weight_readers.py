"""Finds the linear layers whose weights other modules read, which must not be quantized.

A quantized layer's `weight` has other numbers, or another type, but `MultiheadAttention` and many
models written by hand compute directly with the weights of their layers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


def layers_read_elsewhere(model: Any, inputs: tuple[Any, ...]) -> set[str]:
    """Run a copy of the model once; return the layers whose weights other modules take.

    Modules that share a weight, such as an embedding and a linear layer, may both take it. All
    modules may read its shape and type.
    """
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._pytree import tree_leaves

    fresh = copy.deepcopy(model)
    owners: dict[int, set[str]] = {}
    for name, module in fresh.named_modules():
        if isinstance(module, torch.nn.Linear):
            owners.setdefault(id(module.weight), set()).add(name)
    running: list[Any] = []
    found: set[str] = set()

    class Watch(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result)):
                own = {id(weight) for weight in running[-1].parameters(False)} if running else set()
                for leaf in tree_leaves((args, kwargs)):
                    if id(leaf) in owners and id(leaf) not in own:
                        found.update(owners[id(leaf)])
            return result

    def enter(module: Any, _given: Any) -> None:
        running.append(module)

    def leave(*_: Any) -> None:
        running.pop()

    with ExitStack() as hooks:
        for module in fresh.modules():
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave).remove)
        with torch.no_grad(), plain_attention(), Watch():
            fresh(*copy.deepcopy(inputs))
    return found


@contextmanager
def plain_attention() -> Iterator[None]:
    """Let torch.nn's transformers compute by their layers, as in the exported program.

    Their fast path reads the layers' weights, which may be quantized.
    """
    import torch

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
