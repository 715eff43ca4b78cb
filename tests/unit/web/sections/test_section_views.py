from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from page.core.runner import Timing
from page.sections.adapter.view import adapter_pill, no_gpu_banner, problem_banner
from page.sections.inputs.view import inputs_card
from page.sections.open.file_section import folder_title
from page.sections.open.file_view import Placed, constant_text, file_card, forecast_view
from page.sections.open.program_bar import program_bar
from page.sections.outputs.view import outputs_card
from page.sections.run.kernel_view import KernelTime, kernel_times, kernels_view
from page.sections.run.view import further_work, run_card, timing_strip
from page.shared.html.units import short_op
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.outputs.renderers.base import Choice, Output, OutputContext
from support.page.markup import NASTY, Checker, check, method
from webpte import ConstantInfo, DeviceInfo, MethodInfo, ScalarInfo, TensorInfo
from webpte.engine.gpu.device_info import SelfTest
from webpte.inspection.report import MemoryForecast, TimedStep


def card(*methods: MethodInfo, limits: dict[str, int] | None = None) -> Checker:
    named = {info.name: info for info in methods}
    return check(file_card("model.pte", 4096, named, methods[0].name, limits or {}, {}, {}))


def test_file_card() -> None:
    told = card(method()).text
    for part in ("model.pte", "4.00 KiB", "≤9 × ≤3", "float32 · 9 × 5", "relu", "2 kinds, 9 calls"):
        assert part in told
    assert "not supported" not in told


def test_unsupported_operators_come_first_and_are_marked() -> None:
    told = card(
        method(
            ops={"aten.add.Tensor": 7, "aten.cumsum.default": 1},
            kernels_outside={"aten::argmax.out": 1},
            unsupported={"aten.cumsum.default": 1},
        )
    ).text
    assert told.index("cumsum") < told.index("add.Tensor")
    assert "1 operator not supported" in told
    assert told.index("cumsum") < told.index("argmax.outNumPy") < told.index("add.Tensor")


def test_delegates_of_other_backends_are_listed() -> None:
    told = card(method(ops={}, foreign={"XnnpackBackend": 2})).text
    assert "XnnpackBackendother backend2" in told
    assert "compiled for XnnpackBackend" in told
    assert "none" not in told.partition("Constants")[0]


def test_everything_from_the_file_is_escaped() -> None:
    nasty = method(
        name=NASTY,
        inputs=(TensorInfo(NASTY, (1,), "float32", False),),
        ops={NASTY: 1},
        unsupported={NASTY: 1},
        constants=(ConstantInfo(NASTY, 8, (2,), "float32", 1),),
    )
    constant = method(
        name=NASTY + "2", is_constant=True, outputs=(ScalarInfo(NASTY, "str", NASTY),)
    )
    named = {info.name: info for info in (nasty, constant, method())}
    told = check(file_card(NASTY, 1, named, NASTY, {}, {}, {})).text
    assert told.count(NASTY) >= 7


def test_methods_can_be_chosen() -> None:
    checked = card(method(), method(name="encode"), method(name="size", is_constant=True))
    assert "2 methods · 1 constant method" in checked.text
    several = {one.name: one for one in (method(), method(name="encode"))}
    bar = check(program_bar("a.pte", "", several, "encode"))
    assert bar.acts() == {"close", "method"}
    assert check(program_bar("a.pte", "A", {"forward": method()}, "forward")).acts() == {"close"}


@pytest.mark.parametrize(
    ("name", "address", "title"),
    [
        ("model.pte", "https://a.org/models/minilm/model.pte?x=1", "minilm"),
        ("model.pte", "../minilm/model.pte", "minilm"),
        ("model.pte", "https://a.org/model.pte", ""),
        ("model.pte", "http://localhost:8000/model.pte", ""),
        ("model.pte", "model.pte", ""),
        ("digits.pte", "https://a.org/models/digits.pte", ""),
        ("model.pte", "", ""),
    ],
)
def test_a_usual_name_is_replaced_by_its_folder(name: str, address: str, title: str) -> None:
    assert folder_title(name, address) == title


def test_constants_largest_first_against_the_limits() -> None:
    hashed = "0123456789abcdef" * 4
    constants = (
        ConstantInfo("bias", 10, (10,), "int8", 1),
        ConstantInfo(hashed, 2048, (512,), "float32", 3),
    )
    told = card(method(constants=constants), limits={"maxBufferSize": 4096}).text
    assert told.index("float32 · 512 · used 3 times") < told.index("bias")
    assert hashed not in told
    assert "50 %" in told
    over = card(method(constants=constants), limits={"maxBufferSize": 1024}).text
    assert "takes 1.00 KiB at once, so it is bound in parts" in over


def test_many_constants_and_operators_stay_short() -> None:
    constants = tuple(ConstantInfo(f"w{i}", 1000 - i, (1,), "int8", 1) for i in range(900))
    ops = {f"aten.op{i}.default": 1 for i in range(90)}
    checked = card(method(constants=constants, ops=ops))
    assert "and 700 smaller ones" in checked.text
    assert "76 more operators" in checked.text


def test_constant_methods_show_their_values() -> None:
    info = method(
        name="get_vocab",
        is_constant=True,
        inputs=(),
        outputs=(ScalarInfo("output0", "int", 32000), ScalarInfo("output1", "bool", True)),
    )
    assert constant_text(info) == "32000, true"
    assert "32000, true" in card(info).text
    names = replace(info, outputs=(ScalarInfo("output0", "str", "layers " * 5000),))
    assert len(constant_text(names)) == 80


def test_short_op() -> None:
    assert short_op("aten.relu.default") == "relu"
    assert short_op("aten.add.Tensor") == "add.Tensor"
    assert short_op("aten::argmax.out") == "argmax.out"
    assert short_op("et_vk.prepack.default") == "et_vk.prepack"


def test_the_pill_has_the_abilities_behind_it() -> None:
    info = DeviceInfo(
        kind="webgpu",
        vendor="nvidia",
        architecture="ada-lovelace",
        features=("shader-f16",),
        limits={"maxBufferSize": 1 << 32, "maxComputeInvocationsPerWorkgroup": 1024},
    )
    assert problem_banner(info) == ""
    checked = check(adapter_pill(info))
    assert "NVIDIA Ada Lovelace" in checked.text
    assert "run on this GPU" in checked.text
    assert "4.00 GiB" in checked.text
    classes = [known.get("class") for _, known in checked.elements]
    assert classes.count("chip chip-on") == 1
    assert classes.count("chip chip-off") == 2


def test_the_self_test_is_told() -> None:
    info = DeviceInfo("webgpu", "acme")
    assert "self-test" not in check(adapter_pill(info)).text
    passed = replace(info, self_test=SelfTest(("barriers", "f16")))
    assert "passed the self-test (2 checks)" in check(adapter_pill(passed)).text
    assert problem_banner(passed) == ""
    faulty = replace(info, self_test=SelfTest(("barriers",), {"f16": "2 of 8 results are wrong"}))
    checked = check(problem_banner(faulty))
    assert "found wrong results: f16. Programs run without" in checked.text
    assert "lamp lamp-warn" in [known.get("class") for _, known in checked.elements]


def test_a_cpu_is_told() -> None:
    info = DeviceInfo("webgpu", "google", "swiftshader", software=True)
    for drawn in (adapter_pill(info), problem_banner(info)):
        told = check(drawn).text
        assert "Google SwiftShader" in told
        assert "programs run on the CPU" in told


@pytest.mark.parametrize(("reason", "why"), [("missing", "not offer"), ("none", "no adapter")])
def test_banner_without_webgpu(reason: str, why: str) -> None:
    told = check(no_gpu_banner(reason, runs_on_numpy=True)).text
    assert why in told
    assert "Chrome" in told
    assert "NumPy" in told


def test_input_cards() -> None:
    states: list[Input] = [
        TensorInput(0, NASTY, "float32", ((1, 9), (3, 3))),
        TensorInput(1, "ids", "int64", ((4, 4),)),
        ScalarInput(2, "n", "int", 5),
        ScalarInput(3, "b", "bool", True),
        ScalarInput(4, "s", "str", NASTY),
        ScalarInput(5, "nothing", "None", None),
    ]
    checked = check(inputs_card(states))
    acts = {"fill", "dim", "below", "seed", "reroll", "npy", "save-input", "scalar", "reset-inputs"}
    assert checked.acts() == acts
    assert "6 inputs" in checked.text
    assert "-1 to 1" in checked.text
    states[0].error = NASTY
    assert NASTY in check(inputs_card(states)).text
    assert "no inputs" in check(inputs_card([])).text


def test_an_image_that_goes_in_is_shown() -> None:
    shown = [known.get("src") or "" for tag, known in check(
        inputs_card([TensorInput(0, "x", "float32", ((1, 1), (3, 3), (16, 16), (16, 16)))])
    ).elements if tag == "img"]  # fmt: skip
    assert len(shown) == 1
    assert shown[0].startswith("data:image/png")
    assert "<img" not in inputs_card([TensorInput(0, "x", "float32", ((16, 16), (16, 16)))])


def test_run_card() -> None:
    common = {"why_not": "", "live": None, "devices": {"webgpu": "WebGPU", "numpy": "NumPy"}}

    def made(**changes: object) -> Checker:
        known = {"running": False, "can_cancel": False, "device": "webgpu"}
        return check(run_card(**{**common, **known, **changes}))  # type: ignore[arg-type]

    assert made().acts() == {"run", "device"}
    assert made(live=True).acts() == {"run", "device", "live"}
    assert "cancel" in made(running=True, can_cancel=True).acts()
    assert "cancel" not in made(running=True).acts()
    assert "why" in made(why_not="why").text


def test_what_can_be_done_after_a_run_is_not_in_its_bar() -> None:
    def acts(can_check: bool | None, can_profile: bool | None) -> set[str]:
        made = further_work(running=False, repeats=20, can_check=can_check, can_profile=can_profile)
        return check(made).acts()

    assert acts(True, True) == {"check", "profile", "benchmark"}
    assert acts(True, None) == {"check", "benchmark"}
    assert acts(None, True) == {"profile", "benchmark"}
    assert acts(None, None) == {"benchmark"}


def test_what_can_be_done_after_a_run_has_its_place_before() -> None:
    """Otherwise the outputs would move down when the last repeat ends."""
    before = further_work(running=False, repeats=20, can_check=False, can_profile=False)
    during = further_work(running=True, repeats=20, can_check=True, can_profile=True)
    after = further_work(running=False, repeats=20, can_check=True, can_profile=True)
    assert before.count(" disabled") == 2  # a benchmark needs no run before it
    assert during.count(" disabled") == 3
    assert check(before).acts() == check(during).acts() == check(after).acts()
    assert " disabled" not in after


def test_a_bar_is_as_wide_for_few_repeats_as_for_many() -> None:
    def boxes(repeats: int) -> set[str]:
        shown = check(timing_strip(Timing(1.0, {}, 1.0, repeats=[2.0] * repeats), False))
        return {known["viewbox"] or "" for tag, known in shown.elements if tag == "svg"}

    assert boxes(3) == boxes(90) == {"0 0 240 36"}


def test_timing() -> None:
    assert timing_strip(Timing(), False) == ""
    timing = Timing(load=120, stages={"read": 20.0}, first=30, repeats=[4, 2, 3], wanted=10)
    told = check(timing_strip(timing, True)).text
    for part in ("120 ms", "read 20.0 ms", "30.0 ms", "3.00 ms", "best 2.00 ms", "3 of 10"):
        assert part in told
    assert "3 of 10" not in check(timing_strip(timing, False)).text


def test_outputs() -> None:
    values = [
        np.random.default_rng(0).standard_normal((1, 1000)).astype(np.float32),
        np.random.default_rng(0).random((1, 3, 16, 16)).astype(np.float32),
        np.array([[np.nan, 1], [2, np.inf]], np.float32),
        np.zeros((0, 4), np.float32),
        np.full((), 3, np.float32),
        np.eye(5, dtype=bool),
        7,
    ]
    outputs = [Output(i, f"out{i} {NASTY}", value) for i, value in enumerate(values)]
    contexts = [OutputContext(output) for output in outputs]
    checked = check(outputs_card(contexts, [Choice() for _ in contexts]))
    assert checked.acts() == {"copy", "download", "compare", "download-all", "renderer"}
    for part in ("Largest values", "Distribution", "Image:", "1 NaN and 1 infinite", "is empty"):
        assert part in checked.text
    assert "7 outputs" in checked.text


def test_large_outputs_cannot_be_copied() -> None:
    context = OutputContext(Output(0, "y", np.zeros(300_000, np.float32)))
    made = outputs_card([context], [Choice()])
    assert "download instead" in made


def test_long_lists_start_folded_on_a_small_screen() -> None:
    constants = (ConstantInfo("w", 2048, (512,), "float32", 1),)

    def opened(info: MethodInfo, folded: bool) -> list[bool]:
        markup = file_card("m", 1, {"forward": info}, "forward", {}, {}, {}, folded=folded)
        return ["open" in known for tag, known in check(markup).elements if tag == "details"]

    assert opened(method(constants=constants), False) == [True, True]
    assert opened(method(constants=constants), True) == [False, False]
    # What is in the way of a run is never hidden.
    assert opened(method(constants=constants, unsupported={"aten.x": 1}), True) == [True, False]


def test_where_operators_run() -> None:
    named = {"forward": method(ops={"aten.view_copy.default": 3, "aten.cumsum.default": 1})}
    placed = {
        "aten.view_copy.default": Placed("alias"),
        "aten.cumsum.default": Placed("host", 1.25),
    }
    told = check(file_card("m.pte", 1, named, "forward", {}, {}, placed)).text
    assert "view_copyfree3" in told
    assert "cumsumNumPy 1.25 ms1" in told


def test_kernels() -> None:
    timed = (
        ("a", 10.0, "aten.add.Tensor"),
        (NASTY, 2000.0, "aten.exp.default"),
        ("a", 30.0, "aten.mul.Tensor"),
        ("a", None, "aten.mul.Tensor"),
    )
    steps = [TimedStep(0, op, kernel, None, "gpu", spent, None) for kernel, spent, op in timed]
    rows = kernel_times(steps)
    assert [(row.label, row.count, row.ms) for row in rows] == [(NASTY, 1, 2.0), ("a", 3, 0.04)]
    told = check(kernels_view(rows)).text
    for part in (
        NASTY,
        "4 dispatches, 2.04 ms",
        "98 %",
        "× 3",
        "for exp",
        "for add.Tensor, mul.T",
    ):
        assert part in told
    assert "0 dispatches" in check(kernels_view([])).text
    many = [KernelTime(f"k{i}", 1, 1.0) for i in range(30)]
    assert "18 more" in check(kernels_view(many)).text


def test_forecasts_warn_of_too_much() -> None:
    told = MemoryForecast("m", 700 << 20, 64 << 20, 48 << 20, 0, 96 << 20, 1 << 20, {})
    text = check(forecast_view(told)).text
    assert text == "Needs 851 MB of GPU memory: weights 734, caches 67, activations 50."
    others = check(forecast_view(told, "2 other tabs hold 938 MB of GPU memory.")).text
    assert others == f"{text} 2 other tabs hold 938 MB of GPU memory."
    over = check(forecast_view(replace(told, budget=900_000_000))).text
    assert "over the budget of 900 MB. A phone may close the page" in over
    refused = check(forecast_view(replace(told, refusals=("value 3 is too large",)))).text
    assert refused.endswith("activations 50. value 3 is too large")
