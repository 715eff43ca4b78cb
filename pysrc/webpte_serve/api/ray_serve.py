"""The API on Ray Serve: a copy of the models on each of a cluster's GPUs, behind one address.

    serve run webpte_serve.api.ray_serve:deploy models=out/chat replicas=4

docs/use/serve.md has the commands for a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import webpte
from webpte.errors import InputError
from webpte_serve.api import API_KEY
from webpte_serve.api.app import ApiApp
from webpte_serve.api.load_models import open_model
from webpte_serve.openai import Client


@dataclass(frozen=True)
class ClusterOptions:
    """The options of the deployment: see docs/use/serve.md.

    models    folders or files as for `serve.py api`, NAME=PLACE too; places are on the nodes
    replicas  the number of copies; 0 lets Ray choose, by the number of requests
    gpus      per replica: 0.5 puts two on a GPU, 0 is for a CPU's driver and device="numpy"
    waiting   requests that wait in a replica, at most
    slots     requests that a replica answers at once
    """

    models: tuple[str, ...]
    replicas: int = 1
    gpus: float = 1.0
    device: str = "native"
    waiting: int = 64
    slots: int = 4
    keys: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    max_context: int | None = None
    kv_cache: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> ClusterOptions:
        """Read options: texts of a command line (lists with commas), or values of a file."""
        known = {field.name: str(field.type) for field in fields(cls)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise InputError(f"there is no option {unknown}; there are {', '.join(known)}")
        if not given.get("models"):
            raise InputError("models=FOLDER is missing: what to serve, by its path on the nodes")
        return cls(**{name: _parsed(name, known[name], value) for name, value in given.items()})


def _parsed(name: str, kind: str, value: Any) -> Any:
    if kind.startswith("tuple"):
        return tuple(value.split(",") if isinstance(value, str) else map(str, value))
    number = int if kind.startswith("int") else float if kind == "float" else str
    try:
        return number(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name}={value}: a number is needed") from error


class ApiReplica:
    """A copy of the API on a GPU, which Ray assigns."""

    def __init__(self, options: ClusterOptions, keys: Sequence[str]) -> None:
        self._options, self._keys = options, keys
        self._device: webpte.Device | None = None

    async def __serve_build_asgi_app__(self) -> Any:
        """Load the models; Ray calls this once, before the first request."""
        options = self._options
        if options.device != "numpy":
            self._device = await webpte.shared_device(options.device)
        sizes = {"max_context": options.max_context, "kv_cache": options.kv_cache}
        loading: dict[str, Any] = {
            name: value for name, value in sizes.items() if value is not None
        }
        models = [
            await open_model(text, options.device, options.waiting, options.slots, **loading)
            for text in options.models
        ]
        return ApiApp(Client(models), self._keys, (), options.origins).asgi

    def check_health(self) -> None:
        """Raise an error if the GPU is lost: Ray then replaces this replica."""
        if self._device is not None and self._device.lost:
            raise webpte.errors.DeviceLostError("the GPU of this replica is lost")


def deploy(given: dict[str, Any]) -> Any:
    """Return the application for `serve run` and `serve deploy`."""
    from ray import serve

    options = ClusterOptions.of(given)
    # Keys of the environment belong to the deployer: nodes need not have them.
    keys = [*options.keys, *filter(None, [os.environ.get(API_KEY)])]
    deployment = serve.deployment(
        serve.ingress()(ApiReplica),
        name="webpte",
        num_replicas=options.replicas or "auto",
        # Another replica may take a request that this replica cannot: the replica's queue refuses
        # excess.
        max_ongoing_requests=options.waiting,
        max_queued_requests=options.waiting,
        ray_actor_options={"num_gpus": options.gpus},
    )
    return deployment.bind(options, keys)
