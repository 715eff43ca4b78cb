"""Rewrites between torch.export and ExecuTorch give PyTorch's results; they need PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.exir")

from torch.utils import _pytree as pytree  # noqa: E402

from webpte_export import ExportError, export  # noqa: E402
from webpte_export.lowering import runnable_form, torch_export  # noqa: E402
from webpte_export.rewrite import decompositions, linalg, special  # noqa: E402
from webpte_export.rewrite.arguments import arranged  # noqa: E402
from webpte_export.rewrite.complex_pairs import as_real, has_complex  # noqa: E402
from webpte_export.rewrite.example import with_unlike_sizes  # noqa: E402
from webpte_export.rewrite.fourier import Fourier  # noqa: E402
from webpte_export.rewrite.operators import runnable  # noqa: E402

F = torch.nn.functional


class Function(torch.nn.Module):  # type: ignore[name-defined,misc]
    """A module of a function, with buffers for its first arguments."""

    def __init__(self, function: Callable[..., Any], *buffers: Any) -> None:
        super().__init__()
        self.function, self.count = function, len(buffers)
        for number, value in enumerate(buffers):
            self.register_buffer(f"b{number}", value)

    def forward(self, x: Any) -> Any:
        return self.function(*(getattr(self, f"b{n}") for n in range(self.count)), x)


def rewritten(module: Any, *inputs: Any) -> list[Any]:
    """Return the results of the rewritten graph, which has nothing that programs lack."""
    with torch.no_grad():
        exported = torch_export(module, inputs, None, False)
        found = runnable_form(exported, module, inputs, None, False)
        assert not has_complex(found)
        return pytree.tree_leaves(found.module()(*map(as_real, inputs)))


def check(function: Callable[..., Any], *inputs: Any, buffers: tuple[Any, ...] = ()) -> None:
    module = Function(function, *buffers).eval()
    with torch.no_grad():
        expected = [as_real(leaf) for leaf in pytree.tree_leaves(module(*inputs))]
    for got, want in zip(rewritten(module, *inputs), expected, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got, want, rtol=2e-5, atol=2e-5 * max(1, float(want.abs().max()))
        )


@pytest.mark.parametrize(
    "n",
    [1, 2, 3, 8, 100, 257, 400, 512, 513, 521, 1009, 2018, 4096, 6000, 8191, 30030, 65521, 65536],
)
def test_fourier_transforms_beside_numpy(n: int) -> None:
    """The largest error is below 1e-5 of the largest element, in both directions."""
    fourier = Fourier(lambda _, dtype, make: torch.from_numpy(make().copy()).to(dtype))
    rng = np.random.default_rng(n)
    x = rng.standard_normal((2, n)) + 1j * rng.standard_normal((2, n))
    re, im = (torch.from_numpy(part.astype(np.float32)) for part in (x.real, x.imag))
    half = n // 2 + 1
    pairs = [
        (fourier.transform(re, im, -1), np.fft.fft(x)),
        (fourier.transform(re, im, 1), np.fft.ifft(x) * n),
        (fourier.transform(re, None, -1, half), np.fft.rfft(x.real)),
        ((fourier.to_real(re[:, :half], im[:, :half], n), 0), np.fft.irfft(x[:, :half], n) * n),
    ]
    for (a, b), want in pairs:
        error = np.abs(np.asarray(a) + 1j * np.asarray(b) - want).max()
        assert error < 1e-5 * np.abs(want).max()


WINDOW = torch.hann_window(24)
COMPLEX: dict[str, Callable[..., Any]] = {
    "stft": lambda x: torch.stft(x, 24, 6, window=WINDOW, return_complex=True),
    "istft": lambda x: torch.istft(
        torch.stft(x, 24, 6, window=WINDOW, return_complex=True), 24, 6, window=WINDOW, length=90
    ),
    "many dims": lambda x: (
        torch.fft.fft2(x).real,
        torch.fft.irfft2(torch.fft.rfft2(x), s=(2, 90)),
    ),
    "norms": lambda x: (torch.fft.rfft(x, norm="ortho"), torch.fft.ihfft(x, norm="forward")),
    "products": lambda x: (torch.polar(x.abs(), x) * torch.complex(x, 1 - x), x * (2 - 1j)),
    "quotients": lambda x: 1 / torch.complex(x, x + 3) + torch.complex(x, x) / (2 + 1j),
    "functions": lambda x: (
        torch.complex(x, x.flip(0)).exp(),
        torch.complex(x, x + 9).sqrt().abs(),
    ),
    "sums": lambda x: torch.view_as_real(torch.complex(x, x).sum(-1).conj() - 1j),
    "matrices": lambda x: torch.complex(x, x.flip(1)) @ torch.complex(x, x).mH,
    "parts": lambda x: torch.cat([torch.fft.rfft(x).angle().cos(), torch.fft.rfft(x).imag], -1),
    "written": lambda x: torch.zeros(2, 9, dtype=torch.cfloat).index_copy(
        1, torch.tensor([1, 4]), torch.complex(x, x)[:, :2]
    ),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_numbers_are_pairs(name: str) -> None:
    torch.manual_seed(0)
    check(COMPLEX[name], torch.randn(2, 90))


def test_complex_weights_inputs_and_state_are_pairs() -> None:
    torch.manual_seed(0)
    weight = torch.randn(5, 3, dtype=torch.cfloat)
    check(
        lambda w, z: (z @ w, (z / z.abs()).real),
        torch.randn(4, 5, dtype=torch.cfloat),
        buffers=(weight,),
    )

    class Phasor(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("z", torch.ones(3, dtype=torch.cfloat))

        def forward(self, x: Any) -> Any:
            self.z.copy_(self.z * torch.polar(torch.ones_like(x), x))
            return self.z.real * 1

    x = torch.tensor([0.1, 0.5, -2.0])
    with torch.no_grad():
        found = runnable_form(
            torch_export(Phasor(), (x,), None, False), Phasor(), (x,), None, False
        )
    module = found.module()
    for turns in (1, 2, 3):
        np.testing.assert_allclose(module(x), torch.cos(turns * x), atol=1e-6)


def test_what_no_pair_has_is_refused_with_its_line() -> None:
    with pytest.raises(ExportError, match=r"no 'asin' of complex numbers\.\n  test_rewrites"):
        rewritten(Function(lambda x: torch.asin(torch.complex(x, x)).real), torch.ones(3))


A = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
SPD = A @ A.mT + torch.eye(5)
LINEAR: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "inverse": (linalg.inverse, torch.linalg.inv),
    "det": (linalg.determinant, torch.linalg.det),
    "slogdet": (lambda a: linalg._slogdet(a)[:2], torch.linalg.slogdet),
    "cholesky": (lambda a: linalg.cholesky(a @ a.mT), lambda a: torch.linalg.cholesky(a @ a.mT)),
    "solve": (
        lambda a: linalg._solve_ex(a, a[..., :2])[0],
        lambda a: torch.linalg.solve(a, a[..., :2]),
    ),
    "from the right": (
        lambda a: linalg._solve_ex(a, a.mT, left=False)[0],
        lambda a: torch.linalg.solve(a, a.mT, left=False),
    ),
    "triangular": (
        lambda a: linalg.solve_triangular(a.triu(), a, upper=True),
        lambda a: torch.linalg.solve_triangular(a.triu(), a, upper=True),
    ),
    "of a Cholesky factor": (
        lambda a: linalg.cholesky_solve(a, a.tril()),
        lambda a: torch.cholesky_solve(a, a.tril()),
    ),
}


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_linear_algebra_of_small_matrices(name: str, n: int) -> None:
    """Also of matrices whose first pivots are 0."""
    ours, torchs = LINEAR[name]
    a = torch.randn(4, n, n, generator=torch.Generator().manual_seed(n)) + 2 * torch.eye(n)
    if n > 2 and name in ("inverse", "det", "slogdet", "solve"):
        a[:, 0, 0] = a[:, 1, 1] = 0
    for got, want in zip(pytree.tree_leaves(ours(a)), pytree.tree_leaves(torchs(a)), strict=True):
        np.testing.assert_allclose(
            got, want, rtol=2e-3, atol=2e-4 * max(1, float(want.abs().max()))
        )


def test_linear_algebra_of_weights_is_computed_once() -> None:
    torch.manual_seed(0)
    module = Function(lambda w, x: x @ torch.linalg.inv(w), torch.randn(50, 50))
    x = torch.randn(2, 50)
    with torch.no_grad():
        exported = torch_export(module, (x,), None, False)
        found = runnable_form(exported, module, (x,), None, False)
    calls = [str(node.target) for node in found.graph.nodes if node.op == "call_function"]
    assert calls == ["aten.matmul.default"]
    np.testing.assert_allclose(found.module()(x), module(x), rtol=1e-3, atol=1e-3)
    with pytest.raises(ExportError, match="at most 32 rows"):
        rewritten(Function(torch.linalg.inv), torch.randn(40, 40))


def test_special_functions() -> None:
    u = torch.tensor([-1.0, -0.999, -0.5, -1e-4, 0.0, 0.3, 0.9, 1.0, 1.5])
    np.testing.assert_allclose(special.erfinv(u), torch.erfinv(u), rtol=1e-5)
    x = torch.tensor([-3.3, -0.5, 0.1, 0.5, 1.0, 2.0, 3.7, 10.0, 50.0])
    np.testing.assert_allclose(special.lgamma(x), torch.lgamma(x), rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(special.digamma(x), torch.digamma(x), rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(special.i0(x[:-1]), torch.i0(x[:-1]), rtol=1e-5)


@pytest.mark.parametrize("count", [1, 5, 256, 300, 1024])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted_with_equal_elements(count: int, right: bool) -> None:
    rng = torch.Generator().manual_seed(count)
    rows = torch.randint(0, 50, (3, count), generator=rng).float().sort(-1)[0]
    values = torch.cat([torch.randint(-2, 53, (3, 40), generator=rng).float(), rows[:, :1]], -1)
    found = decompositions.searchsorted(rows, values, right=right)
    assert torch.equal(found, torch.searchsorted(rows, values, right=right))
    found = decompositions.bucketize(values, rows[0], right=right)
    assert torch.equal(found, torch.bucketize(values, rows[0], right=right))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("corners", [False, True])
def test_volumes_are_sampled(mode: int, padding: int, corners: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, 4, 5, 6, generator=rng)
    grid = torch.rand(2, 2, 3, 4, 3, generator=rng) * 3 - 1.5
    given = (x, grid, mode, padding, corners)
    found = decompositions.grid_sampler_3d(*given)
    np.testing.assert_allclose(found, torch.ops.aten.grid_sampler_3d(*given), atol=2e-5)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("rows", [1, 7, 40])
def test_distances(p: float, rows: int) -> None:
    x, y = torch.randn(2, rows, 5), torch.randn(2, 9, 5)
    found = decompositions.cdist(x, y, p)
    np.testing.assert_allclose(found, torch.cdist(x, y, p), rtol=1e-4, atol=1e-3)


def test_sizes_that_only_a_trial_proves_are_exported() -> None:
    """The rows' stride is min(32, 32 * n), which PyTorch takes for a limit of n."""

    class Routed(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            rows = x.reshape(-1, 32)
            scores = rows.repeat(3, 1) * rows[:, :3].transpose(0, 1).reshape(-1, 1)
            return rows.add_(scores.reshape(3, -1, 32).sum(0))

    length = torch.export.Dim("length", min=1, max=16)
    exported = torch_export(Routed(), (torch.randn(1, 7, 32),), ({1: length},), False)
    for n in (1, 2, 16):
        x = torch.randn(1, n, 32)
        assert torch.equal(exported.module()(x.clone()), Routed()(x.clone()))


def test_pads_and_rolls_have_no_indices() -> None:
    x = torch.randn(1, 2, 5, 6)

    def padded(x: Any) -> Any:
        return [
            *(F.pad(x, (2, 1, 0, 3), mode=mode) for mode in ("reflect", "replicate", "circular")),
            F.pad(x, (-1, 2, 1, -2), mode="replicate"),
            torch.roll(x, (2, -1), (2, 3)),
            torch.roll(x, 7),
        ]

    check(padded, x)


def test_counts_and_places_are_computed_as_floats() -> None:
    """Sums, cumulative sums and remainders of integers that are known to be small."""

    def routed(x: Any) -> Any:
        chosen = F.one_hot(x.topk(2, -1)[1], 9)
        place = chosen.view(-1, 9).cumsum(0) * chosen.view(-1, 9)
        number = x.flatten().argsort()
        return chosen.sum((0, 1)), place % 7, (x > 0).sum(), number // 9, number % 9, -number % 5

    torch.manual_seed(0)
    x = torch.randn(50, 9)
    check(routed, x)
    with torch.no_grad():
        exported = torch_export(Function(routed), (x,), None, False)
        found = runnable_form(exported, Function(routed), (x,), None, False)
    kinds = {
        node.args[0].meta["val"].dtype
        for node in found.graph.nodes
        if any(name in str(node.target) for name in ("aten.sum", "cumsum", "remainder", "divide"))
    }
    assert kinds == {torch.float32}


def test_integers_that_may_be_large_stay() -> None:
    def summed(x: Any) -> Any:
        return x.sum(), x % 7, (x.clamp(0, 2**20).sum(), x.clamp(0, 100) % 7)

    check(summed, torch.tensor([2**40, -5, 2**33, 3] * 100))


def test_a_place_in_a_buffer_is_an_index() -> None:
    class Ring(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("rows", torch.zeros(3, 2))
            self.register_buffer("place", torch.zeros((), dtype=torch.int64))

        def forward(self, x: Any) -> Any:
            self.rows[self.place % 3] = x
            self.place += 1
            return self.rows * 1, self.rows[self.place % 3]

    with torch.no_grad():
        found = torch_export(Ring(), (torch.ones(2),), None, False).module()
        expected = Ring()
        for number in range(5):
            x = torch.full((2,), float(number))
            for got, want in zip(found(x), expected(x), strict=True):
                assert torch.equal(got, want)


def test_sizes_that_equal_others_stay_changing() -> None:
    """The example's batch equals the number of heads, which must not fix it."""
    batch = torch.export.Dim("batch", min=1, max=8)
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    class Attending(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            return self.layer(x, x, x)[0]

    shapes = {"x": {0: batch}}
    given = (torch.ones(2, 8, 8),)
    unlike = with_unlike_sizes(Attending(), given, shapes)
    assert list(unlike[0].shape) == [3, 8, 8]
    assert with_unlike_sizes(Attending(), (torch.ones(3, 8, 8),), shapes) is None
    assert with_unlike_sizes(Attending(), given, {"x": {0: torch.export.Dim.AUTO}}) is None


def test_conditions_that_hold_for_all_sizes_are_proven() -> None:
    """torch.export cannot prove `1 % (n // 8 + 1) != 0`, which it wants of a batch of 1."""

    def mel(x: Any) -> Any:
        frames = x.unfold(-1, 16, 8)
        return torch.ones(4, 16) @ frames.transpose(-1, -2)

    length = torch.export.Dim("length", min=24, max=200)
    found = torch_export(Function(mel), (torch.ones(1, 96),), ({1: length},), False)
    x = torch.randn(1, 133)
    np.testing.assert_allclose(found.module()(x), mel(x), atol=1e-5)

    def branching(x: Any) -> Any:
        return x * 2 if x.shape[1] > 100 else x * 3

    with pytest.raises(ExportError, match="does not take all of the sizes"):
        torch_export(Function(branching), (torch.ones(1, 96),), ({1: length},), False)


def test_assertions_go() -> None:
    def checked(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "positive")
        return x * 2

    check(checked, torch.ones(3))


def test_operators_beyond_core_aten_have_kernels() -> None:
    names = {str(op) for op in runnable()}
    wanted = {"logcumsumexp.default", "sort.stable", "hypot.default"}
    wanted |= {"__rshift__.Scalar", "adaptive_max_pool2d.default", "cummax.default"}
    assert {f"aten.{name}" for name in wanted} <= names
    assert not any(op._schema.is_mutable for op in runnable())


class Keyed(torch.nn.Module):  # type: ignore[name-defined,misc]
    def forward(
        self, x: Any, scale: float, parts: Any, *, mask: Any = None, mode: str = "a"
    ) -> Any:
        return (x * scale + parts["more"][0]).masked_fill(mask, 0.0) * (1 if mode == "a" else 2)


def test_arguments_become_tensors_in_order() -> None:
    x, mask = torch.randn(2, 3), torch.tensor([[True, False, True]] * 2)
    parts = {"more": [torch.ones(3), 7], "none": None}
    keywords = {"mask": mask, "mode": "b"}
    module, calls, shapes = arranged(
        Keyed(), [(x, 2.0, parts), (x, 3.0, parts)], keywords, {"x": {0: 1}, "parts": None}
    )
    assert [len(pytree.tree_leaves(call)) for call in calls] == [4, 4]
    assert [float(pytree.tree_leaves(call)[1]) for call in calls] == [2.0, 3.0]
    assert list(shapes) == ["x", "scale", "parts", "mask"]
    want = Keyed()(x, 3.0, parts, mask=mask, mode="b")
    assert torch.equal(module(*calls[1]), want)
    plain = torch.nn.Identity()
    assert arranged(plain, [x, (x,)], None, None) == (plain, [(x,), (x,)], None)


def test_arguments_that_change_are_refused() -> None:
    x, mask = torch.ones(2), torch.tensor([True, False])
    calls = [{"x": x, "scale": 1.0, "parts": {"more": [x]}, "mask": mask, "mode": m} for m in "ab"]
    with pytest.raises(ExportError, match="'a' in one call and another value"):
        arranged(Keyed(), calls, None, None)
    with pytest.raises(ExportError, match="have different arguments"):
        arranged(
            Keyed(), [calls[0], {k: v for k, v in calls[0].items() if k != "mode"}], None, None
        )
    with pytest.raises(ExportError, match="does not take the inputs: missing"):
        arranged(Keyed(), [{"x": x}], None, None)
    with pytest.raises(ExportError, match="has no tensor"):
        arranged(Keyed(), [(1, 2, {})], None, None)


def test_whispers_front_end_is_in_the_program(tmp_path: Path) -> None:
    """From samples to the logarithm of mel energies, in one submission."""

    def front(window: Any, mel: Any, x: Any) -> Any:
        frames = torch.stft(x, 400, 160, window=window, return_complex=True)
        energies = torch.clamp(mel @ (frames[..., :-1].abs() ** 2), min=1e-10).log10()
        return (torch.maximum(energies, energies.max() - 8.0) + 4.0) / 4.0

    torch.manual_seed(0)
    module = Function(front, torch.hann_window(400), torch.rand(80, 201))
    report = export(module, torch.randn(1, 8000), tmp_path / "m")
    assert report.passed, report.text()
    assert report.submissions == 1
    assert not [op for op in report.host_ops if op.where == "host"]


def test_random_outputs_are_not_compared(tmp_path: Path) -> None:
    class Sampling(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x * 2, x + torch.randn_like(x)

    report = export(Sampling(), torch.ones(4), tmp_path / "m")
    assert report.passed, report.text()
    assert "not_compared" in report.extra
    import webpte
    from support.graphs.graphs import wait

    async def twice() -> list[Any]:
        async with await webpte.load(report.program, device="numpy") as program:
            return [(await program.forward(np.ones(4, np.float32)))[1] for _ in range(2)]

    first, second = wait(twice())
    assert not np.array_equal(first, second)


def test_a_program_without_delegates_takes_the_place_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from executorch.backends.vulkan.vulkan_preprocess import VulkanBackend

    def fails(*_: Any) -> Any:
        raise RuntimeError("Cannot create value for arg")

    monkeypatch.setattr(VulkanBackend, "preprocess", fails)
    report = export(torch.nn.Linear(4, 3), torch.ones(2, 4), tmp_path / "m")
    assert report.passed, report.text()
    assert report.delegates == 0
    assert "Cannot create value" in report.extra["without_delegates_because"]
