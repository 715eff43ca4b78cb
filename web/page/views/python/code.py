"""The session as Python code: the program, its inputs and the call, or a conversation."""

from __future__ import annotations

import re
from math import prod

from page.core.abilities import is_language_model
from page.core.session import Session
from page.shared.cards.fills import integer_range, range_period
from page.shared.inputs.inputs import Input, ScalarInput, TensorInput
from page.shared.inputs.match_inputs import is_bytes_file
from webpte.engine.open.library import LOCAL


def as_python(session: Session) -> str:
    """Return code that loads the same program, makes the same inputs and the same call.

    A language model whose inputs nobody has set gets code for a conversation.
    """
    if asks(session):
        return _chat(session)
    _, load = _source(session)
    names = [f"x{state.index}" for state in session.inputs]
    results = [f"y{index}" for index in range(len(session.methods[session.method].outputs))]
    targets = "".join(f"{name}, " for name in results).strip()
    arguments = ", ".join([repr(session.method), *names])
    lines = [
        "import numpy as np",
        "import webpte",
        "",
        f"async with await {load} as program:",
        *(f"    x{s.index} = {_value(s)}  # {word_of(s.name)}" for s in session.inputs),
        f"    {f'({targets}) = ' if results else ''}await program.run({arguments})",
        *(f"    print({name})" for name in results),
    ]
    return "\n".join(lines)


def asks(session: Session) -> bool:
    """Tell whether the code is for a conversation: with a language model, its inputs unset."""
    return session.can(is_language_model) and not any(one.touched for one in session.inputs)


def question_of(session: Session) -> str:
    """Return a question for a language model: its card's first."""
    card = session.source.card
    return card.questions[0] if card is not None and card.questions else "Hello!"


def source_of(session: Session) -> str:
    """Return where the program is: its address, or the name of its file."""
    file = session.source.file
    if file is not None and not file.address.startswith(LOCAL):
        return file.address
    return session.source.name


def _source(session: Session) -> tuple[str, str]:
    """Return where the program is, and the call that loads it."""
    source, where = session.source, source_of(session)
    sizes = {"max_context": source.max_context, "kv_cache": source.kv_cache}
    given = ['data=["…"]'] if source.extra else []
    given += [f"{name}={value!r}" for name, value in sizes.items() if value is not None]
    given += ["options=webpte.Options(int8_products=True)"] if source.int8_products else []
    given += ['device="numpy"'] if session.device == "numpy" else []
    load = "webpte.load" if all(value is None for value in sizes.values()) else "webpte.llm.load"
    return where, f"{load}({', '.join([repr(where), *given])})"


def _chat(session: Session) -> str:
    """Return code for a conversation with a language model."""
    where, load = _source(session)
    card = session.source.card
    folder = where.rpartition("/")[0] + "/" if "/" in where else ""
    tokenizer, config = f"{folder}tokenizer.json", f"{folder}tokenizer_config.json"
    if card is not None and card.tokenizer:
        base = where.removesuffix(card.program) if where.endswith(card.program) else ""
        tokenizer, config = (one and base + one for one in (card.tokenizer, card.tokenizer_config))
    given = f", config={config!r}" if config else ""
    lines = [
        "import webpte",
        "",
        f"async with await {load} as program:",
        f"    tokenizer = await webpte.text.load_tokenizer({tokenizer!r}{given})",
        "    chat = webpte.llm.Chat(program, tokenizer)",
        f"    async for piece in chat.send({question_of(session)!r}, max_new_tokens=100):",
        '        print(piece, end="")',
    ]
    return "\n".join(lines)


def word_of(name: str) -> str:
    """Return a name for a comment, without line breaks."""
    return re.sub(r"\s+", " ", name)


def _value(state: Input) -> str:
    if isinstance(state, ScalarInput):
        finite = not isinstance(state.value, float) or state.value - state.value == 0
        return repr(state.value) if finite else f"float({str(state.value)!r})"
    shape, dtype = tuple(state.dims), state.dtype
    if state.fill in ("picture", "draw", "sound"):
        return f"np.load('input{state.index}.npy')"  # as “Save .npy” names it
    if state.fill == "text":
        return f"np.array({state.array().tolist()!r}, {dtype!r})"
    if state.fill == "typed":
        array = state.array()
        if array.size > 1 and (array == array.reshape(-1)[0]).all():
            return f"np.full({shape}, {array.reshape(-1)[0].item()!r}, {dtype!r})"
        values = re.sub(r"\b(nan|inf)\b", r"np.\1", repr(array.tolist()))
        return f"np.array({values}, {dtype!r})"
    if state.fill in ("zeros", "ones"):
        return f"np.{state.fill}({shape}, {dtype!r})"
    if state.fill == "file":
        if is_bytes_file(state.file_name):
            return f"np.fromfile({state.file_name!r}, {dtype!r}).reshape({shape})"
        archive, found, key = state.file_name.rpartition(".npz: ")
        return f"np.load({archive + '.npz'!r})[{key!r}]" if found else f"np.load({key!r})"
    made, known = _made(state, shape)
    return made if known == dtype else f"{made}.astype({dtype!r})"


def _made(state: TensorInput, shape: tuple[int, ...]) -> tuple[str, str]:
    """Return code that makes the values of a rule, and their dtype; "" if that differs by
    platform."""
    count = prod(shape)
    random = f"np.random.default_rng({state.seed})"
    if state.fill == "normal":
        # float32 first, as the page draws: others would be other numbers.
        return f"{random}.standard_normal({shape}, np.float32)", "float32"
    if state.fill == "integers":
        low, high = integer_range(state.dtype, state.below)
        return f"{random}.integers({low}, {high}, {shape})", "int64"
    if state.fill == "ramp":
        return f"np.linspace(-1, 1, {count}, dtype=np.float32).reshape({shape})", "float32"
    period = range_period(state.dtype, count)
    steps = f"np.arange({count})" if period == count else f"(np.arange({count}) % {period})"
    return f"{steps}.reshape({shape})", ""
