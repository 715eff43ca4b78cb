"""The table of architectures, from the results that the command stores."""

from __future__ import annotations

from typing import Any

from bench.architectures.table import family_key, render, render_families


def result(**changes: Any) -> dict[str, Any]:
    host_ops = [
        {"op": "aten::erf.out", "count": 2, "where": "gpu", "reasons": []},
        {"op": "aten::topk.values", "count": 3, "where": "host", "reasons": []},
    ]
    facts = {"passed": True, "delegates": 2, "host_ops": host_ops, "submissions": 1}
    return {**facts, "max_abs": 1.5e-6, "problem": None, **changes}


RESULTS = {
    "lenet": result(),
    "swin": result(passed=False, problem="2 of 4 elements | differ\nhere", max_abs=0.5),
    "mixtral": {"passed": False, "refused": "torch.export cannot " + "x" * 200},
    "gone": result(),
}
GROUPS = {"Small": ["lenet", "swin"], "Large": ["mixtral", "not_run_yet"], "None": ["later"]}


def test_rows() -> None:
    lines = render(GROUPS, RESULTS, "numpy").splitlines()
    assert "| lenet | 2 | 2 | topk.values ×3 | 1 | 1.5e-06 |" in lines
    (swin,) = (line for line in lines if line.startswith("| swin"))
    assert swin.endswith("| **failed** 5.0e-01 2 of 4 elements / differ here |")
    (mixtral,) = (line for line in lines if line.startswith("| mixtral"))
    assert mixtral.startswith("| mixtral | – | | | | not exported: torch.export cannot xxx")
    assert mixtral.endswith("x… |")
    assert all(line.count("|") == 7 for line in lines if line.startswith("|"))


def test_only_what_was_run_is_counted() -> None:
    text = render(GROUPS, RESULTS, "numpy")
    assert text.startswith("# Architectures\n\n3 of 5 architectures")
    assert "The others have not been run yet." in text
    assert "not been run" not in render({"Small": ["lenet", "swin"]}, RESULTS, "numpy")
    assert "on NumPy: 1 give PyTorch's results, 1 do not run or differ, and\n1 are not" in text
    assert "## None" not in text
    assert "gone" not in text


def test_families() -> None:
    known = {"same": True, "note": "state", "per_token": 1, "chunk": 16}
    results = {
        family_key("mamba"): result(**known),
        family_key("phi"): result(**{**known, "same": False}),
        family_key("rwkv"): {"passed": False, "refused": "it keeps | its state elsewhere"},
        "gpt2": result(),
    }
    text = render_families(["mamba", "gpt2", "phi", "rwkv"], results)
    assert "1 of 3 families give the same.\n1 more have not been exported yet" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    assert lines[1] == "| mamba | state | 2 | 2 | topk.values ×3 | 16 | 1 | PyTorch's |"
    assert lines[2].endswith("| **others** |")
    assert lines[3].endswith("| not exported: it keeps / its state elsewhere |")
    assert all(line.count("|") == 9 for line in lines)
    assert render_families(["gpt2"], results) == ""
