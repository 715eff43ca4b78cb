"""A note above views of tasks: which device computes."""

from __future__ import annotations

from page.shared.html.markup import Html, h
from webpte import DeviceInfo


def device_note(device: str, adapter: DeviceInfo | None, busy: bool = False) -> Html:
    """Return the note about a session's device, which someone may have chosen long before.

    adapter  the browser's, if it has one: on NumPy there is a button for it then
    busy     whether work is under way that the button would end
    """
    if device == "numpy":
        told = "on NumPy (CPU)"
    else:
        is_software = adapter is not None and adapter.software
        told = "on a software GPU (CPU)" if is_software else "on WebGPU"
    switch = h(
        "button",
        "Use WebGPU",
        type="button",
        class_="quiet",
        data_act="device",
        data_value="webgpu",
        aria_disabled="true" if busy else None,
    )
    offered = device == "numpy" and adapter is not None
    return h(
        "div", h("span", told, class_="note"), switch if offered else None, class_="device-note"
    )
