"""Real exports. They need the export environment, and are skipped elsewhere: docs/use/export.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.graphs.graphs import wait

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

import webpte  # noqa: E402
from webpte_export import ExportError, export  # noqa: E402
from webpte_export.llm.source import pairs_together  # noqa: E402
from webpte_export.quantize import row_quantized  # noqa: E402
from webpte_export.weight_readers import layers_read_elsewhere  # noqa: E402


class Counting(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Linear layers around an operator that the partitioner does not know, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)
        self.register_buffer("total", torch.zeros(1, 64))

    def forward(self, x: Any) -> Any:
        self.total.add_(x.sum(0, keepdim=True))
        return self.leave(torch.special.erf(self.enter(x)) + self.total)


@pytest.mark.parametrize("quantize", [None, "8w", "4w", "8da4w"])
def test_every_quantization_gives_pytorchs_results(tmp_path: Path, quantize: str | None) -> None:
    torch.manual_seed(0)
    calls = [(torch.randn(4, 64),) for _ in range(3)]
    report = export(Counting(), calls[0], tmp_path / "m", quantize=quantize, more_inputs=calls[1:])
    assert report.passed, report.text()
    assert [(op.op, op.where) for op in report.host_ops] == [("aten::erf.out", "gpu")]
    assert report.host_ops[0].reasons == ("no operator implementation",)
    assert report.submissions == 1
    kind = {None: "linear", "8w": "_weight_int8pack_mm", "4w": "q4gsw", "8da4w": "dq8ca_q4gsw"}
    assert any(kind[quantize] in op for op in report.gpu_ops), report.gpu_ops


class Turned(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A linear layer of rows that lie in another order, as `MultiheadAttention` makes them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(64, 32)

    def forward(self, x: Any) -> Any:
        return self.layer(x.sin().transpose(0, 1)), x.sin()


@pytest.mark.parametrize("quantize", [None, "8w", "4w", "8da4w"])
def test_layers_of_transposed_rows_are_one_operator(tmp_path: Path, quantize: str | None) -> None:
    torch.manual_seed(0)
    rows, given = torch.export.Dim("rows", min=1, max=8), torch.randn(2, 7, 64)
    shapes, more = ({1: rows},), [torch.randn(2, n, 64) for n in (1, 8)]
    report = export(
        Turned(),
        given,
        tmp_path / "m",
        quantize=quantize,
        dynamic_shapes=shapes,
        more_inputs=more,
    )
    assert report.passed, report.text()
    assert not any("bmm" in op for op in report.gpu_ops), report.gpu_ops


class Deep(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Layers after each other, where rounding decides about levels of activations."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(8))

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = 3 * layer(torch.sin(x))
        return x


@pytest.mark.parametrize(
    ("quantize", "tolerance", "wider"),
    [("8da4w", None, True), ("8da4w", (1e-3, 1e-3), False), ("4w", None, False)],
)
def test_the_tolerance_of_dynamic_quantization_is_measured(
    tmp_path: Path, quantize: str, tolerance: tuple[float, float] | None, wider: bool
) -> None:
    torch.manual_seed(0)
    given = torch.randn(16, 256)
    report = export(Deep(), given, tmp_path / "m", quantize=quantize, tolerance=tolerance)
    (entry,) = json.loads((report.suite / "manifest.json").read_text("utf-8"))
    example = np.load(tmp_path / "m.check.npz")
    assert (entry["atol"] > 1e-3, example["atol"] > 1e-3) == (wider, wider)
    assert entry["rtol"] == 1e-3
    assert report.max_abs is not None
    assert report.passed or (not wider and report.max_abs > 1e-3), report.text()
    largest = np.abs(example["output0"]).max()
    assert entry["atol"] < largest / 10, "a wrong result would not be noticed"


def test_metadata_and_dynamic_shapes(tmp_path: Path) -> None:
    batch = torch.export.Dim("batch", min=1, max=8)
    model = torch.nn.Linear(4, 3)
    report = export(
        model,
        torch.randn(2, 4),
        tmp_path / "m.pte",
        dynamic_shapes=({0: batch},),
        more_inputs=[torch.randn(8, 4)],
        metadata={"get_answer": 42},
    )
    assert report.passed, report.text()
    program = wait(webpte.load(report.program, device="numpy"))
    assert wait(program.run("get_answer")) == (42,)
    x = np.ones((5, 4), np.float32)
    (y,) = wait(program.forward(x))
    np.testing.assert_allclose(y, model(torch.from_numpy(x)).detach().numpy(), atol=1e-5)


class Weighted(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A sum in which it matters which input is which."""

    def forward(self, x: Any, y: Any) -> Any:
        return x - 2 * y


def test_one_tensor_given_twice_is_two_inputs(tmp_path: Path) -> None:
    start = torch.zeros(2, 3)
    report = export(Weighted(), (start, start), tmp_path / "m")
    assert report.passed, report.text()
    program = wait(webpte.load(report.program, device="numpy"))
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 5, np.float32)
    (found,) = wait(program.forward(x, y))
    assert (found == -9).all()


class PartlyRotated(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Half of each head rotated, in the order of transformers' models: heads before tokens."""

    def forward(self, q: Any, k: Any, angles: Any) -> Any:
        cos, sin = angles.cos().unsqueeze(1), angles.sin().unsqueeze(1)

        def rotated(x: Any) -> Any:
            part, rest = x[..., :4], x[..., 4:]
            half = torch.cat((-part[..., 2:], part[..., :2]), -1)
            return torch.cat([part * cos + half * sin, rest], -1)

        return rotated(q), rotated(k)


def test_a_rotary_embedding_with_heads_first_is_right(tmp_path: Path) -> None:
    given = (torch.randn(1, 3, 5, 8), torch.randn(1, 3, 5, 8), torch.randn(1, 5, 4))
    report = export(PartlyRotated(), given, tmp_path / "m")
    assert report.passed, report.text()


def test_masks_of_transformers_do_not_depend_on_values(tmp_path: Path) -> None:
    class Masked(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.body = torch.nn.Transformer(16, 2, 1, 1, 32, batch_first=True, dropout=0.0)

        def forward(self, source: Any, target: Any) -> Any:
            mask = torch.full((5, 5), -1e9).triu(1)
            return self.body(source, target, tgt_mask=mask)

    given = (torch.randn(1, 7, 16), torch.randn(1, 5, 16))
    assert export(Masked(), given, tmp_path / "m").passed


class Returned(torch.nn.Module):  # type: ignore[name-defined,misc]
    """State that is also returned, in a delegate and outside of delegates."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.tensor([3.0, 1.0, 2.0]))
        self.register_buffer("b", torch.tensor([4.0, 0.0, 5.0]))

    def forward(self, x: Any) -> Any:
        self.a.copy_(torch.sort(self.a + x)[0])
        self.b.add_(x)
        return self.a, self.b


def test_state_is_returned_and_starts_with_its_values(tmp_path: Path) -> None:
    calls = [(torch.tensor([n, 0.0, -n]),) for n in (1.0, 2.0, 3.0)]
    report = export(Returned(), calls[0], tmp_path / "m", more_inputs=calls[1:])
    assert report.passed, report.text()


@pytest.mark.parametrize("quantize", ["8w", "4w"])
def test_weights_that_attention_reads_stay(tmp_path: Path, quantize: str) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    report = export(layer, torch.randn(2, 7, 64), tmp_path / "m", quantize=quantize)
    assert report.passed, report.text()


def test_layers_whose_weights_others_read_are_found() -> None:
    class Reading(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.words = torch.nn.Embedding(8, 64)
            self.read, self.own = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
            self.tied = torch.nn.Linear(64, 8, bias=False)
            self.tied.weight = self.words.weight

        def forward(self, tokens: Any) -> Any:
            x = self.own(self.words(tokens)).to(self.own.weight.dtype)
            return self.tied(x @ self.read.weight.T)

    assert layers_read_elsewhere(Reading(), (torch.tensor([[1, 2]]),)) == {"read"}


def test_limits_of_programs_are_told_with_the_line(tmp_path: Path) -> None:
    class Growing(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x).abs()

    grows = ({0: torch.export.Dim("n", min=4, max=16)},)
    with pytest.raises(
        ExportError, match=r"changing size\.\n  test_with_torch\.py, line \d+: return"
    ):
        export(Growing(), torch.ones(8), tmp_path / "m", dynamic_shapes=grows)
    free = ({0: torch.export.Dim("batch")},)
    with pytest.raises(ExportError, match="dim 0 of the input 'input' has no upper bound"):
        export(torch.nn.Linear(4, 3), torch.ones(2, 4), tmp_path / "m", dynamic_shapes=free)
    more = [torch.ones(4), torch.ones(5)]
    with pytest.raises(ExportError, match=r"does not take more_inputs\[1\] \(torch.float32 \[5\]"):
        export(torch.nn.Linear(4, 3), torch.ones(4), tmp_path / "m", more_inputs=more)


def test_faults_are_sentences(tmp_path: Path) -> None:
    class Branching(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x if x.sum() > 0 else -x

    with pytest.raises(ExportError, match=r"torch\.export cannot export Branching"):
        export(Branching(), torch.ones(2), tmp_path / "m")
    with pytest.raises(ExportError, match="must be a tensor, a tuple of arguments, or a dict"):
        export(torch.nn.Identity(), [torch.ones(2)], tmp_path / "m")
    with pytest.raises(ExportError, match="has none that fits"):
        export(torch.nn.Linear(6, 6), torch.ones(1, 6), tmp_path / "m", quantize="4w")


def test_a_delegate_returns_a_value_several_times(tmp_path: Path) -> None:
    """Passes remove copies and views, which the host and the caller need."""

    class Views(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            y = torch.relu(x) * 2
            places = torch.nonzero(y.expand(3, 5)).sum()
            return torch.sort(y.clone(), stable=True).values, places, y[:, :], y.repeat(1, 1)

    report = export(Views(), torch.randn(3, 5), tmp_path / "views")
    assert report.passed, report.problem
    assert report.delegates


def test_rows_of_8_bits_are_near() -> None:
    torch.manual_seed(0)
    linear = torch.nn.Linear(64, 32)
    x = torch.randn(5, 64)
    error = (row_quantized(linear)(x) - linear(x)).abs().max().item()
    assert 0 < error < 0.02


def test_pairs_are_put_together() -> None:
    heads = torch.arange(2 * 6).reshape(12, 1)
    moved = pairs_together(heads, 2, 6).flatten().tolist()
    assert moved == [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3"])
def test_a_folder_gives_what_transformers_gives(tmp_path: Path, architecture: str) -> None:
    transformers = pytest.importorskip("transformers")
    from webpte_export.exporter_patches import patch_exporter
    from webpte_export.llm.huggingface import read_folder
    from webpte_export.llm.model import build

    patch_exporter()
    torch.manual_seed(0)
    stem = architecture.capitalize()
    config = getattr(transformers, f"{stem}Config")(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=96, vocab_size=90, head_dim=16,
        tie_word_embeddings=architecture != "llama",
    )  # fmt: skip
    model = getattr(transformers, f"{stem}ForCausalLM")(config).eval()
    for parameter in model.parameters():
        mean, spread = (1.0, 0.3) if parameter.dim() == 1 else (0.0, 0.15)
        torch.nn.init.normal_(parameter, mean, spread)
    model.save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({}))
    tokens = torch.randint(0, 90, (1, 11))
    with torch.no_grad():
        expected = model(tokens).logits[0, -1]
        built = build(read_folder(tmp_path), 64, 32)
        found = built(tokens, {"input_pos": torch.zeros(1, dtype=torch.long)})[0]
    assert (expected - found).abs().max() < 1e-4
