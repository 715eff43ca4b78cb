"""The adapter: its name in the header, its abilities, its problems, and advice without one."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from page.shared.html.units import bytes_text, count_text
from webpte import DeviceInfo

# What each feature changes for a model, in the words of someone who waits for it.
FEATURES = {
    "shader-f16": "half-precision arithmetic in kernels",
    "timestamp-query": "exact times on the GPU",
    "subgroups": "matrix multiplication by subgroups",
}
LIMITS = (
    ("maxBufferSize", "max buffer"),
    ("maxStorageBufferBindingSize", "max tensor"),
    ("maxComputeInvocationsPerWorkgroup", "max workgroup size"),
)
_SOFTWARE = "No GPU was found: programs run on the CPU. Everything works, but slowly."
# Browsers tell these in lower case with dashes; people know them otherwise.
_SPELLED = {
    "amd": "AMD",
    "arm": "Arm",
    "nvidia": "NVIDIA",
    "swiftshader": "SwiftShader",
}


def _title(info: DeviceInfo) -> str:
    return info.description or _parts(info, " ") or "Unnamed adapter"


def _subtitle(info: DeviceInfo) -> str:
    """Return vendor and architecture, if the title does not have them."""
    return _parts(info, " · ") if info.description else ""


def _parts(info: DeviceInfo, separator: str) -> str:
    return separator.join(_spell(part) for part in (info.vendor, info.architecture) if part)


def _spell(name: str) -> str:
    words = name.replace("-", " ").split()
    return " ".join(_SPELLED.get(word, word[:1].upper() + word[1:]) for word in words)


def adapter_pill(info: DeviceInfo) -> Html:
    """Return the adapter's name for the header, with its abilities behind."""
    chips = [
        h(
            "li",
            name,
            class_="chip chip-on" if name in info.features else "chip chip-off",
            title=f"{use}: {'available' if name in info.features else 'not available'}",
        )
        for name, use in FEATURES.items()
    ]
    limits = [
        h("div", h("dt", label), h("dd", _limit_text(name, info.limits[name])))
        for name, label in LIMITS
        if name in info.limits
    ]
    tested = _tested(info)
    name = _title(info)
    sheet = h(
        "div",
        h(
            "p",
            h("strong", name),
            h("span", _subtitle(info), class_="soft") if _subtitle(info) else None,
            class_="gpu-name",
        ),
        h("p", _verdict(info), class_="gpu-verdict"),
        h("p", tested, class_="gpu-verdict") if tested else None,
        h("ul", chips, class_="chips", aria_label="Features"),
        h("dl", limits, class_="limits"),
        id="adapter-sheet",
        class_="share-box adapter-sheet",
        popover=True,
        role="dialog",
        aria_label="GPU",
    )
    pill = h(
        "button",
        _lamp("warn" if _problem(info) else "good"),
        h("span", name, class_="adapter-name"),
        type="button",
        class_="adapter-pill",
        popovertarget="adapter-sheet",
        aria_label=f"GPU: {name}",
        title=name,
    )
    return h("div", pill, sheet)


def problem_banner(info: DeviceInfo) -> Html:
    """Return the problem of an adapter; nothing if there is none."""
    problem = _problem(info)
    if not problem:
        return Html("")
    return _banner("warn", h("strong", _title(info)), h("p", problem, class_="gpu-verdict"))


def _banner(mood: str, name: object, *more: Html) -> Html:
    who = h("div", h("p", name, class_="gpu-name"), more, class_="gpu-who")
    return h("div", _lamp(mood), who, class_="gpu")


def _lamp(mood: str) -> Html:
    return h("span", class_=f"lamp lamp-{mood}", aria_hidden="true")


def _problem(info: DeviceInfo) -> str:
    """Return what to know before programs run; "" for a GPU whose results were right."""
    wrong = _tested(info) if info.self_test is not None and info.self_test.faults else ""
    return " ".join(filter(None, (_SOFTWARE if info.software else "", wrong)))


def _verdict(info: DeviceInfo) -> str:
    return _SOFTWARE if info.software else "Programs run on this GPU."


def _tested(info: DeviceInfo) -> str:
    """Return the outcome of the self-test in a sentence; empty if the GPU is not open yet."""
    test = info.self_test
    if test is None:
        return ""
    if not test.faults:
        return f"It passed the self-test ({len(test.passed)} checks)."
    faults = ", ".join(test.faults)
    return (
        f"The self-test found wrong results: {faults}. Programs run without, and may be slower. "
        "Updating the browser or the graphics driver may help."
    )


def _limit_text(name: str, value: int) -> str:
    return bytes_text(value) if name.endswith("Size") else count_text(value)


def waiting_banner() -> Html:
    return _banner(
        "warn",
        h("strong", "Looking for a GPU"),
        h(
            "p",
            "The browser has not answered yet. Files can be inspected meanwhile. If this "
            "message stays, close other tabs that use the GPU, or restart the browser.",
            class_="gpu-verdict",
        ),
    )


def no_gpu_banner(reason: str, *, runs_on_numpy: bool) -> Html:
    """Return the banner without a GPU; `reason` is "missing" (no navigator.gpu) or "no adapter"."""
    if reason == "missing":
        why = "This browser does not offer WebGPU to this page."
    else:
        why = "WebGPU is on, but no adapter was found."
    return _banner(
        "bad",
        (h("strong", "No GPU available."), " ", why),
        h(
            "p",
            "Files can still be opened and inspected"
            + (", and programs run on NumPy on the CPU." if runs_on_numpy else "."),
            class_="gpu-verdict",
        ),
        h(
            "details",
            h("summary", "How to get WebGPU"),
            h(
                "ul",
                h("li", "Chrome or Edge 113 and later have it on Windows, macOS and ChromeOS; "
                  "Chrome 121 and later on Android 12."),
                h("li", "On Linux, start Chrome with ",
                  h("code", "--enable-unsafe-webgpu --enable-features=Vulkan"),
                  " or switch on ", h("code", "chrome://flags/#enable-unsafe-webgpu"), "."),
                h("li", "Safari 26 and later have it; Firefox 141 and later on Windows, "
                  "145 and later on Macs with Apple silicon."),
                h("li", "The page must come over https:// or from localhost."),
                h("li", "If it should work: switch hardware acceleration on in the browser's "
                  "settings, and look at ", h("code", "chrome://gpu"), "."),
                h("li", "Without any GPU, Chrome computes in software with ",
                  h("code", "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader"), "."),
            ),
            class_="help",
        ),
    )  # fmt: skip
