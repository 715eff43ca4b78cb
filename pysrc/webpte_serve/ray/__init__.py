"""Many rows through a program: for Ray Data on one machine or many, or for any other loop.

    from webpte_serve.ray import Predictor

    found = rows.map_batches(
        Predictor,
        fn_constructor_args=["model.pte"],
        fn_constructor_kwargs={"inputs": ["image"], "outputs": ["scores"]},
        batch_size=256,
        compute=ray.data.ActorPoolStrategy(size=2),
        num_gpus=1,
    )

Nothing here imports Ray: docs/use/serve.md has the whole way from a laptop to a cluster.
"""

from __future__ import annotations

from webpte_serve.ray.predictor import Predictor

__all__ = ["Predictor"]
