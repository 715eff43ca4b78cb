"""A program on a device: built by `load`, replaced by `recover`, freed by `close`."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeVar, cast

from webpte.engine.call.call import Lifetime
from webpte.engine.call.info import Placement
from webpte.engine.call.options import AS_SUITS, Options, applied_to
from webpte.engine.files.download import Progress
from webpte.engine.gpu.device import Device
from webpte.engine.gpu.device_info import DeviceInfo
from webpte.engine.gpu.tuning_cache import kept_choices
from webpte.engine.graph.graph import Graph
from webpte.engine.load.absorb import absorb
from webpte.engine.load.fold_method import fold
from webpte.engine.load.integer_ranges import read_constants
from webpte.engine.load.offload import offload
from webpte.engine.load.program_file import Contents, MethodContents
from webpte.engine.load.recognize import recognize
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

T = TypeVar("T")
NOTHING: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Stages:
    """The stages of a method from the file to the device, and its state on the device."""

    file: MethodContents
    folded: MethodContents  # with calls of constants computed, and dead branches removed
    planned: MethodContents
    state: State


class Build:
    """A program's methods with their delegates and state; each call holds a lease on `lifetime`.

    `device` is "numpy", or the GPU device that the kernels run on.
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
        self.info = DeviceInfo("numpy")  # the device's info, with the options applied
        self.contents: Contents | None = None  # the program that the build was made of
        self.lifetime = Lifetime()
        # held while tuning: two runs at once would time each other's kernels
        self.tuning = asyncio.Lock()
        self.methods: dict[str, Method] = {}
        self.stages: dict[str, Stages] = {}
        self._strict = strict
        self._library = ShaderLibrary()
        self._delegates_of: dict[str, list[Delegate]] = {}
        self._constants = constants or ConstantStore()
        self._derived: dict[Hashable, Any] = {}
        self._deriving = asyncio.Lock()

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
        """Build all methods on the device; free everything again if any step fails.

        With `shares`, constants that the device holds for other programs are used; without, all
        constants are read again.
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

    async def derive(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Await `make` once for each key, and return its result.

        The build keeps the result: a delegate (or an object with `delegates`) is listed with the
        delegates of the build, and `quiet` waits for its calls, too.
        """
        async with self._deriving:
            if key not in self._derived:
                self._derived[key] = await make()
            return cast("T", self._derived[key])

    def keep(self, key: Hashable, make: Callable[[], T]) -> T:
        """Call `make` once for each key, and return its result, kept as in `derive`."""
        if key not in self._derived:
            self._derived[key] = make()
        return cast("T", self._derived[key])

    def derived(self, key: Hashable) -> Any:
        """Return the object that `derive` or `keep` made for a key, or None."""
        return self._derived.get(key)

    def drop(self, unused: Callable[[Any], bool]) -> None:
        """Forget the derived objects for which `unused` is true, without freeing their memory."""
        self._derived = {key: one for key, one in self._derived.items() if not unused(one)}

    def only_graph(self, method: Method) -> Graph | None:
        """Return the graph of a method that is a single delegate and no other step, else None."""
        graphs = _graphs(self.stages[method.info.name].planned)
        return graphs[0] if len(graphs) == 1 and method.only_delegate is not None else None

    async def make_delegate(
        self,
        graph: Graph,
        like: GpuDelegate,
        lifetime: Lifetime,
        borrowed: Mapping[int, int] = NOTHING,
    ) -> GpuDelegate:
        """Make a delegate of a graph on the device of `like`, with the constants of the program.

        borrowed  buffers for values of the graph that the delegate does not allocate itself
        """
        return await GpuDelegate.create(
            graph,
            like.device,
            self._library,
            strict=self._strict,
            constants=self._constants,
            lifetime=lifetime,
            borrowed=dict(borrowed),
            fused=self.options.fuse,
            info=like.info,
        )

    async def share_state(self, body: GpuDelegate, graph: Graph, purpose: str) -> GpuDelegate | str:
        """Return a delegate of a graph with the state and constants of `body`, or why not."""
        state = Dataflow.of(body.graph).state
        borrowed = {value_id: body.memory.buffer_of(value_id) for value_id in state}
        try:
            made = await self.make_delegate(graph, body, self.lifetime, borrowed)
        except (GraphError, UnsupportedError, OutOfMemoryError) as error:
            return f"the graph for {purpose} cannot be built: {error}"
        same = all(_kind(body.graph, i) == _kind(made.graph, i) for i in state)
        return made if same else f"the graph for {purpose} keeps other state"

    @property
    def delegates(self) -> Iterator[Delegate]:
        """All delegates of the program, method by method."""
        return (delegate for found in self._delegates_of.values() for delegate in found)

    @property
    def library(self) -> ShaderLibrary:
        """The source text of the kernels."""
        return self._library

    def delegates_of(self, method: str) -> list[Delegate]:
        """Return the delegates of a method, by index."""
        return self._delegates_of[method]

    @property
    def gpu_delegates(self) -> list[GpuDelegate]:
        return [delegate for delegate in self.delegates if isinstance(delegate, GpuDelegate)]

    @property
    def all_gpu_delegates(self) -> list[GpuDelegate]:
        """The GPU delegates of the methods, then the delegates that were derived from them."""
        made = (_delegates_in(one) for one in self._derived.values())
        return [*self.gpu_delegates, *(delegate for found in made for delegate in found)]

    @property
    def allocated(self) -> dict[int, int]:
        """Size in bytes of each GPU buffer, by number."""
        holders = self.all_gpu_delegates
        return {buffer: n for holder in holders for buffer, n in holder.allocated.items()}

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Hold off new calls inside the block, once all calls under way on the host have ended."""
        async with self._deriving, AsyncExitStack() as turns:
            locks = {id(method.turn): method.turn for method in self.methods.values()}
            for lock in locks.values():
                await turns.enter_async_context(lock)
            by_lock = {id(delegate.lock): delegate for delegate in self.all_gpu_delegates}
            for delegate in by_lock.values():  # delegates that share state share a lock
                await turns.enter_async_context(delegate.turn())
            yield

    def placements(self) -> list[Placement]:
        """List the placement of every operator of every method, with its time on the host."""
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
                        host_ms[op, where] += delegate.times.host_ms.get(op, 0.0)
            rows += [
                Placement(name, op, where, count, host_ms[op, where])
                for (op, where), count in counts.items()
            ]
        return rows

    def end(self, why: str) -> None:
        """Refuse further calls because of `why`; free everything when the last call has ended."""
        self.lifetime.end(why)


async def _on_gpu(
    method: MethodContents, state: State, device: DeviceInfo, others: Collection[Cell]
) -> tuple[Stages, State]:
    """Fold, offload and stitch a method; returns the method with the state that stays on the host.

    `others` is the state of the other methods.
    """
    folded, state = await fold(method, state)
    constants = await read_constants(folded)
    stitched = stitch(offload(folded, state, device, others, constants), state, device)
    planned, kept = keep_state(stitched, state, others)
    return Stages(method, folded, await recognize(absorb(planned, kept)), state), kept


async def _seen_with(options: Options, info: DeviceInfo) -> DeviceInfo:
    """Return the device info for these options, with the tile configs tuned for the adapter."""
    choices = await kept_choices(info) if options.tuned else ()
    return replace(applied_to(options, info), choices=choices)


def _delegates_in(derived: Any) -> Iterable[GpuDelegate]:
    """Return the delegates of an object that `derive` has made."""
    return [derived] if isinstance(derived, GpuDelegate) else getattr(derived, "delegates", ())


def _kind(graph: Graph, value_id: int) -> tuple[str, Dims, bool]:
    """Return the properties that must agree where two graphs share a tensor of state."""
    tensor = graph.tensor(value_id)
    return tensor.dtype.name, tensor.dims, value_id in Dataflow.of(graph).state


def _graphs(contents: MethodContents) -> list[Graph]:
    return [graph for graph in contents.graphs if graph is not None]
