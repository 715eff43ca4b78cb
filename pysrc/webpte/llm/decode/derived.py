"""Derives delegates for decoding from a language model's method.

A build keeps each with the delegates of its methods, and frees all of them together
(`Build.derive`).
"""

from __future__ import annotations

from webpte.engine.call.call import Lifetime
from webpte.engine.call.gpu_tensor import GpuTensor
from webpte.engine.dtypes import DTYPES
from webpte.engine.graph.graph import Tensor
from webpte.engine.run.build import Build
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.method import Method
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import Delegate
from webpte.errors import UnsupportedError
from webpte.llm.decode.batched_graph import batched_graph
from webpte.llm.decode.batched_steps import BatchedSteps, GpuBatchedSteps, NumpyBatchedSteps
from webpte.llm.decode.guessed_rounds import GuessedRounds
from webpte.llm.decode.rollback_safety import unsafe_state
from webpte.llm.decode.row_logits import row_logits
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampler_graph import SamplerKind
from webpte.llm.decode.token_graph import token_graph


def sampled_delegate(build: Build, body: GpuDelegate, kind: SamplerKind) -> SampledDelegate:
    """Return a delegate with a sampler for its only output."""
    return build.keep(
        ("sampler", body, kind),
        lambda: SampledDelegate(body, kind, build.library, build.lifetime),
    )


async def row_sampler(build: Build, kind: SamplerKind, row: GpuTensor) -> GpuDelegate:
    """Return a delegate that samples from a row of logits, an input, in its dtype and size."""
    dtype, dims = DTYPES[row.declared_dtype], row.shape

    async def make() -> GpuDelegate:
        return await GpuDelegate.create(
            kind.graph(Tensor(0, dtype, dims, None, None)),
            row.device,
            build.library,
            lifetime=build.lifetime,
            info=build.info,
        )

    return await build.derive(("row sampler", kind, dtype.name, dims), make)


async def row_logits_delegate(build: Build, method: Method, rows: int) -> Delegate | str:
    """Return a method's only delegate, changed to give the logits of each of `rows` tokens.

    The changed delegate has the state and the constants of the method's, for calls while no other
    run of that delegate is under way. Returns the reason if there can be no such delegate.
    """

    async def make() -> Delegate | str:
        body, graph = method.only_delegate, build.only_graph(method)
        if body is None or graph is None:
            return "the method is not one delegate"
        if reason := unsafe_state(graph):
            return reason
        changed = row_logits(graph, rows)
        if isinstance(changed, str):
            return changed
        if isinstance(body, NumpyDelegate):
            return body.with_graph(changed)
        assert isinstance(body, GpuDelegate)
        return await build.share_state(body, changed, f"{rows} tokens at once")

    return await build.derive(("rows", method.info.name, rows), make)


async def token_delegate(build: Build, method: Method, embedding: Method) -> GpuDelegate | str:
    """Return a delegate that embeds tokens and decodes them, or the reason why that is impossible.

    The delegate shares the state of the method that takes embeddings, and takes turns with it.
    """

    async def make() -> GpuDelegate | str:
        body, first = method.only_delegate, embedding.only_delegate
        if not isinstance(body, GpuDelegate) or not isinstance(first, GpuDelegate):
            return "the methods are not one delegate on a GPU each"
        before, after = build.only_graph(embedding), build.only_graph(method)
        if before is None or after is None:
            return "the methods are not one delegate each"
        graph = token_graph(before, after)
        if isinstance(graph, str):
            return graph
        made = await build.share_state(body, graph, "tokens")
        if isinstance(made, GpuDelegate):
            made.take_turns_with(body)
        return made

    return await build.derive(_tokens_key(method), make)


def built_token_delegate(build: Build, method: Method) -> GpuDelegate | str | None:
    """Return the result of `token_delegate` if a call has requested it."""
    found: GpuDelegate | str | None = build.derived(_tokens_key(method))
    return found


def _tokens_key(method: Method) -> tuple[str, str]:
    return "tokens", method.info.name


async def batched_steps(
    build: Build, method: Method, slots: int, rows: int, context: int | None
) -> BatchedSteps:
    """Return a method's only delegate, changed to run the tokens of several sequences at once.

    The changed delegate has the constants of the method's, and separate caches until it is closed.
    Raises UnsupportedError if the rows of a call cannot belong to several sequences.
    """

    body, graph = method.only_delegate, build.only_graph(method)
    if body is None or graph is None:
        raise UnsupportedError("the method is not one delegate")
    batched = batched_graph(graph, slots, rows, slots, context)
    if isinstance(body, NumpyDelegate):
        return NumpyBatchedSteps(body, batched, slots)
    assert isinstance(body, GpuDelegate)

    async def make() -> BatchedSteps:
        lifetime = Lifetime()
        try:
            delegate = await build.make_delegate(batched.graph, body, lifetime)
            made = GpuBatchedSteps(delegate, batched, slots, build.library)
        except BaseException:
            lifetime.end("the batch could not be built")
            raise
        build.lifetime.hold(made.close)
        return made

    build.drop(lambda one: isinstance(one, GpuBatchedSteps) and not one.delegates)
    # not kept under a common key: each caller needs separate steps
    return await build.derive(object(), make)


def guessed_rounds(
    build: Build,
    method: Method,
    target: SampledDelegate,
    draft: SampledDelegate | None,
    count: int,
    room: int,
) -> GuessedRounds:
    """Return rounds of `count` guessed tokens that a method's delegate checks.

    A draft guesses the tokens, or a lookup in a conversation of up to `room` tokens.
    """
    body = method.only_delegate
    assert isinstance(body, GpuDelegate)
    build.drop(lambda one: isinstance(one, GuessedRounds) and one.ended)
    return build.keep(
        ("rounds", target, draft, count, room),
        lambda: GuessedRounds(body, target, draft, count, room, build.library),
    )
