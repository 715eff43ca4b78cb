"""The options of the API on Ray Serve; tests/cluster has the deployment."""

from __future__ import annotations

import pytest

from webpte.errors import InputError
from webpte_serve.api.ray_serve import ClusterOptions


def test_options_are_those_of_a_command_line_or_a_file() -> None:
    of_line = {"models": "a,b=c", "replicas": "0", "gpus": "0.5", "max_context": "128"}
    of_file = {"models": ["a", "b=c"], "replicas": 0, "gpus": 0.5, "max_context": 128}
    assert ClusterOptions.of(of_line) == ClusterOptions.of(of_file)
    assert ClusterOptions.of(of_line).models == ("a", "b=c")
    for given, told in (
        ({"models": "a", "replica": "2"}, r"no option \['replica'\]; there are models, "),
        ({"replicas": 2}, "models=FOLDER is missing"),
        ({"models": "a", "replicas": "two"}, "replicas=two: a number is needed"),
    ):
        with pytest.raises(InputError, match=told):
            ClusterOptions.of(given)
