"""A program on a device: built by `load`, replaced by `recover`, freed by `close`."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from webpte.engine.call.info import Placement
from webpte.engine.call.lifetime import Lifetime
from webpte.engine.call.options import AS_SUITS, Options, applied_to
from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.tuning_cache import kept_choices
from webpte.engine.graph.graph import Graph
from webpte.engine.load.fold_method import fold
from webpte.engine.load.offload import offload
from webpte.engine.load.program_file import Contents, MethodContents
from webpte.engine.load.recognize_attention import recognize_attention
from webpte.engine.load.resident import keep_state
from webpte.engine.load.state import Cell, State, read_states, share_cells
from webpte.engine.load.stitch import stitch
from webpte.engine.plan.shaders import ShaderLibrary
from webpte.engine.rewrite.dataflow import Dataflow
from webpte.engine.run.delegate import GpuDelegate
from webpte.engine.run.method import Method
from webpte.engine.run.numpy_delegate import NumpyDelegate
from webpte.engine.run.request import Delegate
from webpte.engine.run.shared_weights import ConstantStore
from webpte.engine.shapes import Dims
from webpte.errors import GraphError, OutOfMemoryError, UnsupportedError
from webpte.llm.decode.batched_graph import batched_graph
from webpte.llm.decode.batched_steps import BatchedSteps, GpuBatchedSteps, NumpyBatchedSteps
from webpte.llm.decode.guessed_rounds import GuessedRounds
from webpte.llm.decode.rollback_safety import unsafe_state
from webpte.llm.decode.row_logits import row_logits
from webpte.llm.decode.sampled_delegate import SampledDelegate
from webpte.llm.decode.sampler_graph import SamplerKind
from webpte.llm.decode.token_graph import token_graph

_RoundsKey = tuple[SampledDelegate, SampledDelegate | None, int, int]


@dataclass(frozen=True)
class Stages:
    """A method on its way from the file to the device, and its state there."""

    file: MethodContents
    folded: MethodContents  # without what constants determine
    planned: MethodContents
    state: State


class Build:
    """Methods with their delegates and state. Calls hold a lease on `lifetime`.

    `device` is "numpy", or what the kernels run on.
    """

    def __init__(
        self,
        device: str | Device,
        strict: bool,
        options: Options = AS_SUITS,
        constants: ConstantStore | None = None,
    ) -> None:
        self.device = device
        self.options = options
        self.info = DeviceInfo("numpy")  # of the device, with the options applied
        self.contents: Contents | None = None  # that it was made of
        self.lifetime = Lifetime()
        self.tuning = asyncio.Lock()  # two runs at once would time each other's kernels
        self.methods: dict[str, Method] = {}
        self.stages: dict[str, Stages] = {}
        self._strict = strict
        self._library = ShaderLibrary()
        self._delegates_of: dict[str, list[Delegate]] = {}
        self.sampled: dict[tuple[GpuDelegate, SamplerKind], SampledDelegate] = {}
        self._constants = constants or ConstantStore()
        self._of_rows: dict[tuple[str, int], Delegate | str] = {}
        self.of_tokens: dict[str, GpuDelegate | str] = {}
        self._rounds: dict[_RoundsKey, GuessedRounds] = {}
        self._batched: list[GpuBatchedSteps] = []
        self._building = asyncio.Lock()

    @classmethod
    async def create(
        cls,
        contents: Contents,
        device: str | Device,
        strict: bool,
        progress: Progress | None,
        options: Options = AS_SUITS,
        shares: bool = True,
    ) -> Build:
        """Build everything on the device; free it again if any of it fails.

        It `shares` constants with other programs of the device; otherwise all are read again.
        """
        store = ConstantStore.of(device) if shares and not isinstance(device, str) else None
        build = cls(device, strict, options, store)
        try:
            await build._make_methods(contents, progress)
        except BaseException:
            build.end("the program could not be loaded")
            raise
        return build

    async def _make_methods(self, contents: Contents, progress: Progress | None) -> None:
        self.contents = contents
        states = await read_states(contents)
        together = asyncio.Lock() if share_cells(states.values()) else None
        device = None if isinstance(self.device, str) else self.device
        if device is not None:
            self.info = await _seen_with(self.options, device.info)
        for name, of_file in contents.methods.items():
            stages, kept = Stages(of_file, of_file, of_file, states[name]), states[name]
            if device is not None:
                others = [c for n, s in states.items() if n != name for c in s.values()]
                stages, kept = await _on_gpu(of_file, states[name], self.info, others)
            self.stages[name] = stages
            method, state = stages.planned, kept
            delegates = [await self._make_delegate(graph, progress) for graph in _graphs(method)]
            self._delegates_of[name] = delegates
            lock = together or asyncio.Lock()
            self.methods[name] = Method(method, delegates, state, device, lock, self.lifetime)

    async def _make_delegate(self, graph: Graph, progress: Progress | None) -> Delegate:
        if isinstance(self.device, str):
            return await NumpyDelegate.create(graph)
        return await GpuDelegate.create(
            graph,
            self.device,
            self._library,
            progress,
            self._strict,
            self._constants,
            self.lifetime,
            fused=self.options.fuse,
            info=self.info,
        )

    async def with_row_logits(self, method: Method, rows: int) -> Delegate | str:
        """Return a method's only delegate, changed to give the logits of each of `rows` tokens.

        It has the state and the constants of that delegate, for calls that come while no other run
        of it is under way. It is built by the first call; returns the reason if it cannot be.
        """
        key = method.info.name, rows
        async with self._building:
            if key not in self._of_rows:
                self._of_rows[key] = await self._build_row_logits(method, rows)
            return self._of_rows[key]

    async def _build_row_logits(self, method: Method, rows: int) -> Delegate | str:
        body = method.only_delegate
        graphs = _graphs(self.stages[method.info.name].planned)
        if body is None or len(graphs) != 1:
            return "the method is not one delegate"
        if reason := unsafe_state(graphs[0]):
            return reason
        graph = row_logits(graphs[0], rows)
        if isinstance(graph, str):
            return graph
        if isinstance(body, NumpyDelegate):
            return body.with_graph(graph)
        assert isinstance(body, GpuDelegate)
        return await self._with_state_of(body, graph, f"{rows} tokens at once")

    async def _with_state_of(
        self, body: GpuDelegate, graph: Graph, purpose: str
    ) -> GpuDelegate | str:
        """Return a delegate of a graph with the state and constants of another, or why not."""
        state = Dataflow.of(body.graph).state
        try:
            made = await GpuDelegate.create(
                graph,
                body.device,
                self._library,
                strict=self._strict,
                constants=self._constants,
                lifetime=self.lifetime,
                borrowed={value_id: body.memory.buffer_of(value_id) for value_id in state},
                fused=self.options.fuse,
                info=body.info,
            )
        except (GraphError, UnsupportedError, OutOfMemoryError) as error:
            return f"the graph for {purpose} cannot be built: {error}"
        same = all(_kind(body.graph, i) == _kind(made.graph, i) for i in state)
        return made if same else f"the graph for {purpose} keeps other state"

    async def with_tokens(self, method: Method, embedding: Method) -> GpuDelegate | str:
        """Return a delegate that embeds tokens and decodes them, or the reason if it cannot be.

        It has the state of the method that takes embeddings, and takes turns with it. It is built
        by the first call.
        """
        name = method.info.name
        async with self._building:
            if name not in self.of_tokens:
                self.of_tokens[name] = await self._build_of_tokens(method, embedding)
            return self.of_tokens[name]

    async def _build_of_tokens(self, method: Method, embedding: Method) -> GpuDelegate | str:
        body, first = method.only_delegate, embedding.only_delegate
        if not isinstance(body, GpuDelegate) or not isinstance(first, GpuDelegate):
            return "the methods are not one delegate on a GPU each"
        names = embedding.info.name, method.info.name
        parts = [graph for name in names for graph in _graphs(self.stages[name].planned)]
        if len(parts) != len(names):
            return "the methods are not one delegate each"
        graph = token_graph(*parts)
        if isinstance(graph, str):
            return graph
        made = await self._with_state_of(body, graph, "tokens")
        if isinstance(made, GpuDelegate):
            made.take_turns_with(body)
        return made

    async def with_slots(
        self, method: Method, slots: int, rows: int, context: int | None
    ) -> BatchedSteps:
        """Return a method's only delegate, changed to run the tokens of several sequences at once.

        It has the constants of that delegate, and caches of its own until it is closed. Raises
        UnsupportedError if rows of a call cannot be those of several sequences.
        """
        async with self._building:
            body, graphs = method.only_delegate, _graphs(self.stages[method.info.name].planned)
            if body is None or len(graphs) != 1:
                raise UnsupportedError("the method is not one delegate")
            batched = batched_graph(graphs[0], slots, rows, slots, context)
            if isinstance(body, NumpyDelegate):
                return NumpyBatchedSteps(body, batched, slots)
            assert isinstance(body, GpuDelegate)
            lifetime = Lifetime()
            try:
                made = await GpuBatchedSteps.create(
                    *(batched, body, slots, self._library, lifetime),
                    strict=self._strict,
                    constants=self._constants,
                    fused=self.options.fuse,
                )
            except BaseException:
                lifetime.end("the batch could not be built")
                raise
            self._batched = [one for one in self._batched if one.delegates] + [made]
            self.lifetime.hold(made.close)
            return made

    def with_sampler(self, body: GpuDelegate, kind: SamplerKind) -> SampledDelegate:
        """Return a delegate with a sampler that takes its only output."""
        if (body, kind) not in self.sampled:
            self.sampled[body, kind] = SampledDelegate(body, kind, self._library, self.lifetime)
        return self.sampled[body, kind]

    def with_guesses(
        self,
        method: Method,
        target: SampledDelegate,
        draft: SampledDelegate | None,
        count: int,
        room: int,
    ) -> GuessedRounds:
        """Return rounds of `count` guessed tokens that a method's delegate checks.

        A draft guesses them, or a lookup in a conversation of up to `room` tokens.
        """
        key = target, draft, count, room
        for old in [one for one in self._rounds if one[1] and one[1].body.lifetime.ended]:
            del self._rounds[old]
        if key not in self._rounds:
            body = method.only_delegate
            assert isinstance(body, GpuDelegate)
            self._rounds[key] = GuessedRounds(body, target, draft, count, room, self._library)
        return self._rounds[key]

    @property
    def delegates(self) -> Iterator[Delegate]:
        """All delegates, method by method."""
        return (delegate for found in self._delegates_of.values() for delegate in found)

    @property
    def library(self) -> ShaderLibrary:
        """The source text of the kernels."""
        return self._library

    def delegates_of(self, method: str) -> list[Delegate]:
        """Return the delegates of one method, by index."""
        return self._delegates_of[method]

    @property
    def gpu_delegates(self) -> list[GpuDelegate]:
        return [delegate for delegate in self.delegates if isinstance(delegate, GpuDelegate)]

    @property
    def all_gpu_delegates(self) -> list[GpuDelegate]:
        """The delegates of methods, then samplers and variants of them that were built since."""
        samplers = [sampled.sampler for sampled in self.sampled.values()]
        leads = [rounds.lead for rounds in self._rounds.values()]
        batched = [delegate for steps in self._batched for delegate in steps.delegates]
        made = (*samplers, *leads, *self._of_rows.values(), *self.of_tokens.values(), *batched)
        return [*self.gpu_delegates, *(one for one in made if isinstance(one, GpuDelegate))]

    @property
    def allocated(self) -> dict[int, int]:
        """GPU buffers by number, with their bytes."""
        holders = self.all_gpu_delegates
        return {buffer: n for holder in holders for buffer, n in holder.allocated.items()}

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Wait until no call is being prepared or under way on the host, and let none begin."""
        async with self._building, AsyncExitStack() as turns:
            locks = {id(method.turn): method.turn for method in self.methods.values()}
            for lock in locks.values():
                await turns.enter_async_context(lock)
            by_lock = {id(delegate.lock): delegate for delegate in self.all_gpu_delegates}
            for delegate in by_lock.values():  # some take turns
                await turns.enter_async_context(delegate.turn())
            yield

    def placements(self) -> list[Placement]:
        """List where every operator of every method runs, with the host's time."""
        rows = []
        for name, method in self.methods.items():
            counts = Counter({(kernel, "host"): n for kernel, n in method.kernels.items()})
            counts.update({(kernel, "alias"): n for kernel, n in method.folded.items()})
            host_ms = defaultdict(
                float, {(kernel, "host"): ms for kernel, ms in method.kernel_ms.items()}
            )
            for delegate in self._delegates_of[name]:
                if isinstance(delegate, GpuDelegate):
                    for (op, where), count in delegate.placements().items():
                        counts[op, where] += count
                        host_ms[op, where] += delegate.host_ms.get(op, 0.0)
            rows += [
                Placement(name, op, where, count, host_ms[op, where])
                for (op, where), count in counts.items()
            ]
        return rows

    def end(self, why: str) -> None:
        """Refuse calls from now on; everything is freed when the last one has ended."""
        self.lifetime.end(why)


async def _on_gpu(
    method: MethodContents, state: State, device: DeviceInfo, others: Collection[Cell]
) -> tuple[Stages, State]:
    """Fold, offload and stitch a method; returns it with the state that stays on the host.

    `others` is state of the other methods.
    """
    folded, state = await fold(method, state)
    stitched = stitch(offload(folded, state, device, others), state, device)
    planned, kept = keep_state(stitched, state, others)
    return Stages(method, folded, await recognize_attention(planned), state), kept


async def _seen_with(options: Options, info: DeviceInfo) -> DeviceInfo:
    """Return the device info for these options, with the tuned configs of the adapter."""
    choices = await kept_choices(info) if options.tuned else ()
    return replace(applied_to(options, info), choices=choices)


def _kind(graph: Graph, value_id: int) -> tuple[str, Dims, bool]:
    """Return what has to agree where two graphs share a tensor of state."""
    tensor = graph.tensor(value_id)
    return tensor.dtype.name, tensor.dims, value_id in Dataflow.of(graph).state


def _graphs(contents: MethodContents) -> list[Graph]:
    return [graph for graph in contents.graphs if graph is not None]
