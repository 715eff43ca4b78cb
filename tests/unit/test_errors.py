"""Errors as objects: they go from one process to another without changes."""

from __future__ import annotations

import pickle

import pytest

from webpte import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.InputError("forward: rank 2 is needed"),
        errors.FormatError("it is cut off", 7),
        errors.DescriptionError("program.json", "it is no JSON", 3),
        errors.OtherFileError("a picture", "open it in a viewer", 0),
        errors.UnsupportedOpError("forward", {"aten.x.default": 2}),
        errors.FaultyDeviceError("it adds wrongly", {"add": "3"}),
        errors.DigestError("a.pte", "ab", "cd"),
        errors.retold(errors.FormatError("it is cut off", 7), "a.pte: it is cut off"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_reaches_another_process(error: errors.WebpteError) -> None:
    told = pickle.loads(pickle.dumps(error))
    assert type(told) is type(error)
    assert (str(told), vars(told)) == (str(error), vars(error))
