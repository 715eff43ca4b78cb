"""Documents from end to end: a PDF is added, searched, kept, and asked with citations."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from support.harness.task_cases import models_folder
from support.page.gallery_models import Encoder, install
from support.page.page_visit import payload, show_samples, status, visit
from support.write.pdf_writer import write_pdf
from webpte_host.serving.routing import Mount
from webpte_host.serving.server import Site

PAGES = [["The dog is lazy."], ["The fox is quick."], ["It will rain later."]]


@pytest.fixture(scope="module")
def page(
    profile: BrowserContext,
    site: Site,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("models")
    tokenizer = (models_folder() / "vectors" / "tokenizer.json").read_bytes()
    files = {"model.pte": Encoder(2000).pte(), "tokenizer.json": tokenizer}
    install(folder, "meanings", files, view="documents", tokenizer="tokenizer.json")
    with site.mounted(Mount("/models/", folder)), visit(profile, site, but="404") as page:
        yield page


def test_a_pdf_is_searched_kept_and_asked(page: Page) -> None:
    show_samples(page)
    page.locator("#gallery-list").get_by_role("button", name="meanings", exact=True).click()
    expect(status(page)).to_contain_text("loaded in")
    view = page.get_by_role("tabpanel")
    add = view.locator("#documents-list input[type=file]")
    add.set_input_files(payload("manual.pdf", write_pdf(PAGES)))
    expect(status(page)).to_have_text("Added 1 document with 3 passages")
    expect(view.locator("#documents-list")).to_contain_text("3 pages · 3 passages")
    view.get_by_label("Search the documents").press_sequentially("The fox is quick.")
    first = view.locator(".documents-found li").first
    expect(first).to_contain_text("manual.pdf, page 2")
    expect(first).to_contain_text("1.00")
    first.get_by_role("button").click()
    expect(view.locator("mark")).to_have_text("The fox is quick.")

    page.reload()
    expect(status(page)).to_contain_text("loaded in")
    expect(view.locator("#documents-list")).to_contain_text("manual.pdf")
    view.get_by_label("Question").fill("It will rain later.")
    view.get_by_label("Cite after every statement").check()
    view.get_by_label("answered by").select_option("stories")
    view.get_by_role("button", name="Ask").click()
    cited = view.locator(".documents-cited button").first
    expect(cited).to_be_visible()
    view.get_by_role("button", name="Stop").click()
    expect(status(page)).to_contain_text("Stopped")
    place = cited.inner_text().partition("] ")[2]
    assert place.startswith("manual.pdf, page ")
    cited.click()
    expect(view.locator("#documents-shown h2")).to_have_text(place)
    number = int(place.rpartition(" ")[2])
    expect(view.locator("mark")).to_have_text(PAGES[number - 1][0])
