from __future__ import annotations

import pytest

from page.shared.html.markup import Html, h, render
from page.shared.html.matches import marked_words, without_marks


def test_text_is_escaped_everywhere() -> None:
    nasty = "<script>alert('x')</script>"
    made = h("p", nasty, title=nasty)
    assert "<script>" not in made
    assert made.count("&lt;script&gt;") == 2
    assert "&#x27;x&#x27;" in made


def test_markup_is_kept_and_nested() -> None:
    assert h("ul", [h("li", 1), h("li", 2.5)]) == "<ul><li>1</li><li>2.5</li></ul>"


def test_quotes_cannot_leave_an_attribute() -> None:
    assert h("a", title='" onclick="x') == '<a title="&quot; onclick=&quot;x"></a>'


def test_attributes() -> None:
    made = h(
        "input", type="file", class_="x", data_act="open", disabled=True, hidden=False, id=None
    )
    assert made == '<input type="file" class="x" data-act="open" disabled>'
    assert h("input", name="repeats") == '<input name="repeats">'


def test_nothing_is_shown_for_none_and_false() -> None:
    assert render([None, False, "a", [], ["b", [Html("<i>")]]]) == "ab<i>"


def test_zero_is_something() -> None:
    assert h("b", 0) == "<b>0</b>"


def test_objects_are_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        h("p", object())


def test_a_string_is_one_child() -> None:
    assert render(h("p", "a<b")) == "<p>a&lt;b</p>"
    assert render("a<b") == "a&lt;b"


def test_words_of_a_query_are_marked() -> None:
    found = marked_words("A dog in the gardens; <Dogma>, hotdog.", "Which dog in garden?")
    assert found == (
        "A <mark>dog</mark> in the <mark>gardens</mark>; &lt;<mark>Dogma</mark>&gt;, hotdog."
    )
    assert marked_words("1 + (2", "(2 + 1)") == "1 + (2"
    assert marked_words("a <b>", "") == "a &lt;b&gt;"
    assert without_marks("# Cats\n\n## Old ones\n#no\n") == "Cats\n\nOld ones\n#no\n"
