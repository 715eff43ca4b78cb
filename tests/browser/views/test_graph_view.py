"""The graph in Chromium: diagram and list, folds, search, an opened call, its values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect

from support.harness import limits
from support.page.page_visit import TWO_FRAMES, WATCH_LONG_TASKS, open_address, status
from webpte_host.serving.server import Site

NARROWEST = 360  # pixels, of a phone
USUAL_SIZE: ViewportSize = {"width": 1280, "height": 720}
LONGEST_TASK_MS = limits.LONG_TASK_MS


@pytest.fixture(scope="module")
def page(started: Page) -> Page:
    return started


def boxes(panel: Locator) -> Locator:
    return panel.locator(".graph-box > button")


@pytest.fixture(scope="module")
def bare(browser: Browser, site: Site) -> Iterator[Page]:
    """The drawing's script and styles, without Python."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.add_init_script(WATCH_LONG_TASKS)
    address = f"{site.url}bare.html"
    sheets = "".join(
        f"<link rel=stylesheet href='{name}'>"
        for name in ("style/style.css", "page/views/graph/graph.css")
    )
    body = f"<!doctype html>{sheets}<div id=panel class=graph></div>"
    page.route(address, lambda route: route.fulfill(body=body, content_type="text/html"))
    page.goto(address)
    yield page
    page.close()


def box_of(at: int) -> dict[str, Any]:
    title = f"op<{at}>"
    return {"key": f"call {at}", "kind": "call", "title": title, "text": "float32 7 × 11",
            "node": at, "fold": None}  # fmt: skip


def show_drawing(
    page: Page, boxes: list[Any], edges: list[Any], groups: Sequence[Any] = (), graph: str = "one"
) -> None:
    data = {
        "graph": graph,
        "drawing": json.dumps({"boxes": boxes, "edges": edges, "groups": groups}),
        "paint": json.dumps([["graph-gpu", "3 µs"] for _ in boxes]),
        "mark": {"chosen": None, "found": [], "searching": False, "reveal": False},
        "file": "big.svg",
    }
    page.evaluate(
        """async (data) => {
            const { show } = await import("./page/views/graph/graph.js");
            const panel = document.getElementById("panel");
            const tools = ["fit", "save"].map((one) => `<button data-draw=${one}>${one}</button>`);
            const parts = `${tools.join("")}<div id=graph-drawing></div><p id=graph-keys></p>`;
            if (!panel.children.length) panel.innerHTML = parts;
            window.told = [];
            show(panel, data, (...what) => told.push(what));
        }""",
        data,
    )
    expect(page.locator(".graph-sight[aria-busy]")).to_have_count(0)
    expect(page.locator(".graph-drawn").first).to_be_visible()


@pytest.mark.thorough
def test_a_thousand_calls_stay_smooth(bare: Page) -> None:
    """A chain with a branch at every third box, and one value that all read."""
    count = 1000
    boxes = [box_of(at) for at in range(count)]
    edges = [[at, at + 1] for at in range(count - 1)]
    edges += [[at, at + 5] for at in range(0, count - 5, 3)]
    edges += [[0, at] for at in range(20, count, 20)]
    bare.evaluate("longTasks.length = 0")
    show_drawing(bare, boxes, edges)
    drawn = bare.locator(".graph-drawn")
    assert 3 < drawn.count() < 200, "only what is in sight is drawn"

    sight = bare.locator(".graph-sight")
    sight.focus()
    bare.keyboard.press("End")
    expect(bare.locator(f"#graph-box-{count - 1}")).to_be_visible()
    bare.keyboard.press("ArrowUp")
    expect(bare.locator(".graph-told")).to_contain_text(f"op<{count - 2}>")
    expect(sight).to_have_attribute("aria-activedescendant", f"graph-box-{count - 2}")
    bare.keyboard.press("Enter")
    assert bare.evaluate("told") == [["choose", {"node": count - 2}]]

    place = sight.bounding_box()
    assert place is not None
    x, y = place["x"] + 200, place["y"] + 200
    before = bare.locator(".graph-sight g").first.get_attribute("transform")
    bare.mouse.move(x, y)
    bare.mouse.down()
    bare.mouse.move(x + 90, y + 60, steps=5)
    bare.mouse.up()
    expect(bare.locator(".graph-sight g").first).not_to_have_attribute("transform", str(before))
    assert len(bare.evaluate("told")) == 1, "a drag is no click"
    for _ in range(12):
        bare.mouse.wheel(0, 240)
    expect(bare.locator(".graph-sight .graph-coarse")).to_have_count(1)
    with bare.expect_download() as saved:
        bare.get_by_role("button", name="save").click()
    assert saved.value.suggested_filename == "big.svg"
    svg = ElementTree.fromstring(Path(saved.value.path()).read_text(encoding="utf-8"))
    texts = [each.text for each in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {f"op<{at}>" for at in range(count)} <= set(texts)
    tasks = bare.evaluate("longTasks")
    assert max(tasks, default=0) <= LONGEST_TASK_MS, tasks


# Pixels between the middle of the sight and the first box's; NaN while the graph is drawn anew.
OFF_CENTRE = """(() => {
    const [outer, inner] = [".graph-sight", "#graph-box-0"]
        .map((one) => document.querySelector(one)?.getBoundingClientRect());
    if (!outer || !inner) return NaN;
    return Math.abs(outer.left + outer.width / 2 - inner.left - inner.width / 2);
})()"""


@pytest.mark.thorough
def test_a_drawing_stays_in_sight_when_the_window_changes(bare: Page) -> None:
    show_drawing(bare, [box_of(at) for at in range(6)], [[at, at + 1] for at in range(5)])
    usual = bare.viewport_size
    assert usual is not None
    for width in (NARROWEST, 2000):
        bare.set_viewport_size({"width": width, "height": usual["height"]})
        bare.wait_for_function(f"{OFF_CENTRE} < 4")
    bare.locator(".graph-sight").click(position={"x": 20, "y": 20})
    bare.keyboard.press("Shift+ArrowRight")
    # From now on it is where someone has moved it.
    moved = bare.wait_for_function(f"{OFF_CENTRE} > 40 && {OFF_CENTRE}").json_value()
    bare.set_viewport_size({"width": 1200, "height": usual["height"]})
    bare.wait_for_function(f"Math.abs({OFF_CENTRE} - {moved}) < 4")
    bare.set_viewport_size(usual)


# Where the first box is in the window; null while it is drawn anew.
PLACE = """() => {
  const box = document.getElementById("graph-box-0")?.getBoundingClientRect();
  return box?.height ? [box.y] : null;
}"""


@pytest.mark.thorough
def test_a_selected_box_in_sight_stays_in_place(bare: Page) -> None:
    count = 10  # as many as fit, so that the first is near the edge
    edges = [[at, at + 1] for at in range(count - 1)]
    show_drawing(bare, [box_of(at) for at in range(count)], edges, graph="ten")
    first, usual = bare.locator("#graph-box-0"), bare.viewport_size
    first.click()
    before = bare.wait_for_function(PLACE).json_value()
    assert usual is not None
    bare.set_viewport_size({"width": usual["width"] - 200, "height": usual["height"]})
    bare.wait_for_function("document.querySelector('.graph-sight').clientWidth < 1080")
    bare.evaluate(TWO_FRAMES)
    after = bare.wait_for_function(PLACE).json_value()
    assert after == pytest.approx(before, abs=2)
    bare.set_viewport_size(usual)


WATCH_PIECES = """() => {
    const boxesIn = (nodes) => nodes.filter((one) => one.matches?.(".graph-drawn")).length;
    window.drawn = [];  // boxes that came into the page in one task
    new MutationObserver((changes) => {
        const count = boxesIn(changes.flatMap((change) => [...change.addedNodes]));
        if (count) drawn.push(count);
    }).observe(document.querySelector(".graph-sight"), { childList: true, subtree: true });
    window.saved = [];  // boxes in each part of a file
    const Plain = Blob;
    window.Blob = class extends Plain {
        constructor(parts, options) {
            super(parts, options);
            saved.push(...parts.map((part) => part.split('class="graph-drawn ').length - 1));
        }
    };
}"""


@pytest.mark.thorough
def test_many_boxes_in_sight_come_in_pieces(bare: Page) -> None:
    """Columns that all fit into the window, just large enough to be read."""
    side = 20
    many = [box_of(at) for at in range(side * side)]
    edges = [[at, at + side] for at in range(side * (side - 1))]
    show_drawing(bare, many, edges)
    bare.evaluate(WATCH_PIECES)
    bare.get_by_role("button", name="fit").click()
    expect(bare.locator(".graph-drawn")).to_have_count(len(many))
    expect(bare.locator(".graph-drawn").last).to_be_visible()
    with bare.expect_download():
        bare.get_by_role("button", name="save").click()
    most = bare.evaluate(
        "import('./page/views/graph/drawing/scene.js').then((scene) => scene.MOST_BOXES)"
    )
    drawn, saved = bare.evaluate("[drawn, saved]")
    assert max(drawn) <= most < len(many) / 4
    assert (sum(saved), max(saved)) == (len(many), most)


@pytest.mark.thorough
def test_others_have_their_turns_while_pieces_are_made(bare: Page) -> None:
    turns = bare.evaluate("""async () => {
        const { collect } = await import("./page/views/graph/drawing/slices.js");
        let [turns, done] = [0, false];
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => { turns += 1; if (!done) port2.postMessage(null); };
        port2.postMessage(null);
        const slow = function* () {
            for (let piece = 0; piece < 20; piece += 1) {
                for (const end = performance.now() + 15; performance.now() < end;);
                yield piece;
            }
        };
        const made = await collect(slow());
        done = true;
        return made.length === 20 ? turns : -1;
    }""")
    assert turns >= 19


@pytest.mark.thorough
def test_what_is_drawn_can_be_moved_while_another_drawing_is_laid_out(bare: Page) -> None:
    errors: list[str] = []
    bare.on("pageerror", lambda error: errors.append(str(error)))
    many = [box_of(at) for at in range(200)]
    show_drawing(bare, many, [[at, at + 1] for at in range(199)])
    bare.locator(".graph-sight").focus()
    bare.evaluate(
        """async (boxes) => {
            const { show } = await import("./page/views/graph/graph.js");
            const mark = { chosen: 1, found: [], searching: false, reveal: false };
            const drawing = JSON.stringify({ boxes, edges: [[0, 1]], groups: [] });
            const paint = JSON.stringify([["graph-host", ""], ["graph-host", ""]]);
            const panel = document.getElementById("panel");
            show(panel, { drawing, paint, mark }, (...what) => told.push(what));
            const pressed = new KeyboardEvent("keydown", { key: "End" });
            document.activeElement.dispatchEvent(pressed);
            await new Promise(requestAnimationFrame);
        }""",
        many[:2],
    )
    expect(bare.locator(".graph-drawn")).to_have_count(2)
    expect(bare.locator(".graph-drawn-chosen.graph-host")).to_have_count(1)
    assert errors == []


@pytest.mark.thorough
def test_a_selection_does_not_pass_to_another_graph(bare: Page) -> None:
    show_drawing(bare, [box_of(at) for at in range(8)], [[at, at + 1] for at in range(7)])
    bare.locator(".graph-sight").focus()
    bare.keyboard.press("End")
    expect(bare.locator(".graph-drawn-near")).to_have_count(1)
    show_drawing(bare, [box_of(at) for at in range(9)], [[0, 8], [3, 8]], graph="two")
    expect(bare.locator(".graph-drawn")).to_have_count(9)
    expect(bare.locator(".graph-drawn-near, .graph-drawn-current")).to_have_count(0)
    expect(bare.locator(".graph-told")).to_be_empty()


# Boxes that the label of an opened fold covers.
COVERED = """[...document.querySelectorAll(".graph-drawn-group rect")].flatMap((label) => {
    const one = label.getBoundingClientRect();
    return [...document.querySelectorAll(".graph-drawn-body")].filter((body) => {
        const two = body.getBoundingClientRect();
        return one.left < two.right && two.left < one.right
            && one.top < two.bottom && two.top < one.bottom;
    }).map(() => label.parentElement.textContent);
})"""


@pytest.mark.thorough
def test_labels_of_folds_cover_no_box_and_long_edges_are_explained(bare: Page) -> None:
    boxes = [box_of(at) for at in range(40)]
    edges = [[at, at + 1] for at in range(39)] + [[at, at + 2] for at in range(0, 36, 2)]
    groups = [{"fold": "0", "title": "layer × 4", "first": 4, "stop": 36}]
    groups += [
        {"fold": f"0.{at}", "title": f"layer {at}", "first": 4 + 8 * at, "stop": 12 + 8 * at}
        for at in range(4)
    ]
    show_drawing(bare, boxes, [*edges, [0, 39]], groups, graph="groups")
    expect(bare.locator(".graph-drawn-group")).to_have_count(5)
    for _ in range(6):
        assert bare.evaluate(COVERED) == []
        bare.locator(".graph-sight").focus()
        bare.keyboard.press("Shift+ArrowDown")
    expect(bare.locator(".graph-far-note")).to_contain_text("A long edge is drawn as dotted ends")
    first = bare.evaluate("""(() => {
        const map = document.querySelector(".graph-minimap").getBoundingClientRect();
        const boxes = [...document.querySelectorAll(".graph-drawn-body")];
        return boxes.filter((one) => {
            const box = one.getBoundingClientRect();
            return box.right > map.left && box.top < map.bottom && box.bottom > map.top;
        }).length;
    })()""")
    assert first == 0, "the map covers no box"


def open_graph(page: Page, shown_as: str) -> Locator:
    """Open a language model and its graph as it runs, whatever another test left on the page."""
    page.set_viewport_size(USUAL_SIZE)
    status(page).evaluate("(line) => { line.textContent = ''; }")  # of the same model before
    open_address(page, "/data/llm/llama_tiny_q4.pte")
    expect(status(page)).to_contain_text("loaded in")
    page.get_by_role("tab", name="Graph").click()
    panel = page.get_by_role("tabpanel", name="Graph")
    panel.get_by_role("button", name="Optimized", exact=True).click()
    panel.get_by_role("button", name=shown_as).click()
    return panel


def test_the_drawing_is_looked_into(page: Page) -> None:
    panel = open_graph(page, "Diagram")
    sight = panel.get_by_role("application", name="Drawing of the graph")
    fold = panel.get_by_role("img", name="fold layer × 2")
    expect(fold).to_be_visible()
    fold.locator("rect").first.click()
    expect(panel.get_by_role("img", name="fold layer 1")).to_be_visible()
    expect(panel.locator(".graph-drawn-group")).to_have_count(1)

    # From match to match, into folded layers, to the values of a run.
    find = panel.get_by_label("Search operators, values or dtypes")
    find.fill("gated_gemm")
    find.press("Enter")
    inside = panel.get_by_role("complementary")
    expect(inside).to_contain_text("gated_gemm")
    expect(panel.locator(".graph-drawn-chosen")).to_be_visible()
    inside.get_by_role("button", name="Show values").click()
    expect(inside.get_by_role("img", name="Histogram of out").first).to_be_visible()
    sight.focus()
    page.keyboard.press("Escape")
    expect(inside).to_have_count(0)
    expect(sight).to_be_focused()
    panel.get_by_role("button", name="List").click()
    expect(sight).to_have_count(0)
    find.fill("")
    panel.get_by_role("button", name="Collapse all").click()


def test_a_graph_is_looked_into(page: Page) -> None:
    panel = open_graph(page, "List")

    # Layers are folded; the keyboard alone goes to them and opens them.
    layers = panel.get_by_role("button", name="layer × 2")
    expect(layers).to_have_attribute("aria-expanded", "false")
    boxes(panel).first.focus()
    for _ in range(boxes(panel).count()):
        if layers.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("ArrowDown")
    expect(layers).to_be_focused()
    page.evaluate("window.longTasks.length = 0")
    page.keyboard.press("Enter")
    expect(layers).to_have_attribute("aria-expanded", "true")
    expect(layers).to_be_focused()
    panel.get_by_role("button", name="layer 1").click()
    expect(panel.locator(".graph-depth-2").first).to_be_visible()

    # A match is opened; it shows the kernel that the GPU gets.
    find = panel.get_by_label("Search operators, values or dtypes")
    find.fill("gated_")
    expect(panel.get_by_role("status")).to_contain_text("found")
    expect(find).to_be_focused()
    expect(boxes(panel).first).to_contain_text("gated_gemm")
    boxes(panel).first.click()
    expect(panel.get_by_role("table", name="Values")).to_contain_text("inputs")
    expect(panel.get_by_role("table", name="Parameters of").first).to_be_visible()
    wgsl = panel.get_by_role("button", name="WGSL of").first
    wgsl.click()
    expect(wgsl).to_have_attribute("aria-expanded", "true")
    expect(panel.locator(".listing").first).to_contain_text("fn main")
    panel.get_by_role("button", name="Histogram of").first.click()
    expect(panel.get_by_role("img", name="Histogram of")).to_be_visible()
    expect(panel.locator(".listing").first).to_be_visible()  # an opened listing stays open

    # An edge leads to the call that a value comes from, inside of its layer.
    panel.locator(".graph-chosen .graph-sources .graph-link").first.click()
    chosen = panel.locator(".graph-chosen > button")
    expect(chosen).to_contain_text("gemm_add")
    expect(chosen).to_be_focused()
    expect(find).to_have_value("")
    expect(panel.get_by_text("uses it").first).to_be_visible()

    panel.get_by_role("button", name="Original").click()
    panel.get_by_role("button", name="device", exact=True).click()
    expect(panel.get_by_role("list", name="Colours")).to_contain_text("delegate")
    panel.get_by_role("button", name="Expand all").click()
    page.set_viewport_size({"width": NARROWEST, "height": 740})
    boxes(panel).nth(9).click()
    expect(panel.get_by_role("table", name="Values")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROWEST
    tasks = page.evaluate("window.longTasks")
    assert max(tasks, default=0) <= LONGEST_TASK_MS, tasks
