"""Calls that JavaScript makes: each is a method here, by its name, on objects that have handles."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from itertools import count
from typing import Any

import webpte
from npm.inputs import method_inputs
from npm.values import DESTROYED, ForeignObject, unshaped
from webpte import GpuTensor, MethodInfo, Program, ScalarInfo, TensorInfo, hub, tasks
from webpte.errors import ClosedError, InputError, Told, retold
from webpte.llm.open_program import open_program
from webpte.llm.program_signature import vision_among
from webpte.tasks import Task
from webpte.tasks.files import find_program
from webpte_serve.openai import Client, open_model
from webpte_serve.openai.messages import SeenPicture
from webpte_serve.openai.models import EmbeddingModel, Model

Progress = Callable[[str, int, int], None]
# The names of options in JavaScript, and in Python.
_LOADING = {
    **{name: name for name in ("device", "data", "strict", "name", "keep")},
    "maxContext": "max_context",
    "kvCache": "kv_cache",
    "int8Products": "int8_products",
}
_MODELS = {**_LOADING, **{name: name for name in ("slots", "tokenizer", "waiting")}}
_OF_CALLS = ("onProgress", "signal")  # options that stay in JavaScript
_DEVICES = ("webgpu", "numpy")
_INPUTS = "program.methods has the dtypes and shapes of all inputs."
_ANEW = "Call what made it again."
_OUTPUTS = {"array": "numpy", "gpu": "gpu"}
_ENDPOINTS: dict[str, Callable[[Client], Callable[..., Awaitable[Any]]]] = {
    "chat.completions.create": lambda client: client.chat.completions.create,
    "completions.create": lambda client: client.completions.create,
    "embeddings.create": lambda client: client.embeddings.create,
    "rerank": lambda client: client.rerank,
    "tokenize": lambda client: client.tokenize,
}


class Calls:
    """The objects of one worker: programs, tasks, clients, and tensors on the GPU."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}
        self._handles = count(1)

    def keep(self, made: Any) -> int:
        """Store an object until it is closed; returns its handle."""
        handle = next(self._handles)
        self._objects[handle] = made
        return handle

    def find(self, handle: int, freed: str = "") -> Any:
        """Return an object by its handle; `freed` is the message for a tensor or a result."""
        if handle not in self._objects:
            if freed:
                raise _advised(ClosedError(freed), _ANEW)
            raise ClosedError("it was closed: load it again")
        return self._objects[handle]

    def named(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Return the method for a call of JavaScript: `on_` and its name."""
        found: Callable[..., Awaitable[Any]] | None = getattr(self, f"on_{name}", None)
        if found is None:
            raise InputError(f"there is no call {name!r}")
        return found

    async def on_load(self, source: Any, options: Mapping[str, Any], progress: Progress) -> Any:
        """Load a program, and return all that is known of it."""
        program = await open_program(source, **_loading(options), progress=progress)
        try:
            facts = await _facts(program)
        except BaseException:
            program.close()
            raise
        return {"handle": self.keep(program), **facts}

    async def on_inspect(self, source: Any, progress: Progress) -> Any:
        """Describe the methods of a program without a device."""
        methods = await webpte.inspect(source)
        return {name: _method(info) for name, info in methods.items()}

    async def on_run(
        self, handle: int, method: str, inputs: Any, output: str, progress: Progress
    ) -> Any:
        """Run a method of a program."""
        program: Program = self.find(handle)
        if output not in _OUTPUTS:
            known = " and ".join(map(repr, _OUTPUTS))
            raise InputError(f"output: {output!r}: there are {known}")
        try:
            given = method_inputs(method, program.methods.get(method), inputs)
            return await program.run(method, *given, output=_OUTPUTS[output], progress=progress)
        except InputError as error:
            raise _advised(error, _INPUTS) from error

    async def on_stats(self, handle: int, progress: Progress) -> Any:
        """Return the counters of a program."""
        return asdict(self.find(handle).stats)

    async def on_recover(self, handle: int, progress: Progress) -> None:
        """Build a program, or the programs of a client, anew on a new device."""
        made = self.find(handle)
        programs = [one.program for one in made.all_models] if isinstance(made, Client) else [made]
        for program in programs:
            await program.recover(progress=progress)

    async def on_close(self, handle: int, progress: Progress) -> None:
        """Close a program, a task or a client, or free a tensor; a second time does nothing."""
        made = self._objects.pop(handle, None)
        if isinstance(made, GpuTensor):
            made.destroy()
        elif isinstance(made, Client):
            for model in made.all_models:
                model.program.close()
        elif made is not None:
            made.close()

    async def on_read(self, handle: int, progress: Progress) -> Any:
        """Read a tensor on the GPU."""
        return await self.find(handle, DESTROYED).numpy()

    async def on_device(self, progress: Progress) -> ForeignObject:
        """Return the GPUDevice of all programs; only a caller in the same thread can take it."""
        return ForeignObject((await webpte.shared_device("webgpu")).native)

    async def on_hub_files(self, source: str, progress: Progress) -> Any:
        """List the files of a repository of the Hub."""
        return [asdict(one) for one in await hub.files(source)]

    async def on_task(
        self, name: str | None, source: Any, options: Mapping[str, Any], progress: Progress
    ) -> Any:
        """Open a model for a task; without a name, for the task that its files name."""
        given = (source,) if name is None else (name, source)
        task = await tasks.open(*given, **_loading(options), progress=progress)
        return {
            "handle": self.keep(task),
            "name": task.name,
            "canStream": hasattr(task, "stream"),
            "calls": list(task.calls),
            "form": asdict(task.form) if task.form is not None else None,
        }

    async def on_tasks(self, progress: Progress) -> list[str]:
        """Return the names of all tasks."""
        return tasks.names()

    async def on_do(
        self, handle: int, given: Sequence[Any], options: Mapping[str, Any], progress: Progress
    ) -> Any:
        """Do a task."""
        task: Task = self.find(handle)
        return await _bound(task, task.name, given, options)

    async def on_stream(
        self, handle: int, given: Sequence[Any], options: Mapping[str, Any], progress: Progress
    ) -> Any:
        """Do a task piece by piece."""
        task: Any = self.find(handle)
        if not hasattr(task, "stream"):
            raise InputError(f"{task.name} does not stream its results")
        return _bound(task.stream, task.name, given, options)

    async def on_call(
        self,
        handle: int,
        method: str,
        given: Sequence[Any],
        options: Mapping[str, Any],
        progress: Progress,
    ) -> Any:
        """Call one of the further methods of a task."""
        task: Task = self.find(handle)
        if method not in task.calls:
            raise InputError(f"{task.name} has no method {method!r}")
        function: Callable[..., Any] = getattr(task, method)
        if "progress" in inspect.signature(function).parameters:
            options = {**options, "progress": partial(progress, method)}
        made = _bound(function, f"{task.name}.{method}", given, options)
        return await made if inspect.isawaitable(made) else made

    async def on_openai(
        self, models: Mapping[str, Any], options: Mapping[str, Any], progress: Progress
    ) -> Any:
        """Open language models and sentence encoders, by name, behind OpenAI's API."""
        opened: list[Any] = []
        try:
            for name, source in models.items():
                loading = _loading(options, _MODELS)
                opened.append(
                    await open_model(source, name=name or None, progress=progress, **loading)
                )
            client = Client(opened)
        except BaseException:
            for model in opened:
                model.program.close()
            raise
        facts = [_language_facts(model) for model in opened]
        listed = (await client.models.list())["data"]
        return {"handle": self.keep(client), "models": listed, "facts": facts}

    async def on_sees(self, source: str, keep: bool, progress: Progress) -> bool:
        """Return whether a language model takes pictures, from its file alone."""
        methods = await webpte.inspect(await find_program(source, keep))
        return vision_among(methods) is not None

    async def on_picture(
        self, handle: int, model: str | None, picture: Any, progress: Progress
    ) -> SeenPicture:
        """Read a picture for requests to a language model; by default the first."""
        client: Client = self.find(handle)
        return await client.picture(model or client.all_models[0].name, picture)

    async def on_request(
        self, handle: int, endpoint: str, body: Mapping[str, Any], progress: Progress
    ) -> Any:
        """Answer a request of OpenAI's API; a request without a model means the only one."""
        client: Client = self.find(handle)
        if endpoint not in _ENDPOINTS:
            raise InputError(f"there is no endpoint {endpoint!r}")
        models = client.all_models
        named = {"model": models[0].name} if len(models) == 1 else {}
        return await _ENDPOINTS[endpoint](client)(**{**named, **body})


def _language_facts(model: Model | EmbeddingModel) -> dict[str, Any]:
    """Return the context and the abilities of a language model, for the Prompt API."""
    if isinstance(model, EmbeddingModel):
        return {}
    return {"max_context": model.max_context, "sees": model.sees}


def _loading(options: Mapping[str, Any], known: Mapping[str, str] = _LOADING) -> dict[str, Any]:
    """Return the arguments of `webpte.load`, or of `open_model`, for options of JavaScript."""
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        listed = ", ".join([*known, *_OF_CALLS])
        raise InputError(f"there is no option {unknown[0]!r}; there are {listed}")
    device = options.get("device")
    if device is not None and device not in _DEVICES:
        raise InputError(f"device: {device!r}: there are {' and '.join(map(repr, _DEVICES))}")
    given = {known[name]: value for name, value in options.items() if value is not None}
    if given.pop("int8_products", False):
        given["options"] = webpte.Options(int8_products=True)
    return given


def _advised(error: Told, advice: str) -> Told:
    """Return a copy of an error that tells JavaScript what to do, unless it does already."""
    advised = retold(error, str(error))
    vars(advised).setdefault("advice", advice)
    return advised


def _bound(
    function: Callable[..., Any], name: str, given: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a task; arguments that it does not take are an InputError."""
    arguments, named = [unshaped(value) for value in given], unshaped(dict(options))
    try:
        inspect.signature(function).bind(*arguments, **named)
    except TypeError as error:
        raise InputError(f"{name}: {error}") from error
    return function(*arguments, **named)


async def _facts(program: Program) -> dict[str, Any]:
    """Describe a program: its name, its methods, the values that it holds, its device."""
    metadata = {}
    for info in program.methods.values():
        if info.is_constant and not info.inputs:
            values = await program.run(info.name)
            metadata[info.name] = values[0] if len(values) == 1 else values
    device = program.device_info
    told = {key: getattr(device, key) for key in ("kind", "vendor", "architecture", "description")}
    return {
        "name": program.name,
        "methods": {name: _method(info) for name, info in program.methods.items()},
        "metadata": metadata,
        "device": {**told, "software": device.software, "features": device.features},
    }


def _method(info: MethodInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "inputs": [_value(one) for one in info.inputs],
        "outputs": [_value(one) for one in info.outputs],
        "operators": {**info.ops, **info.kernels_outside},
        "unsupported": info.unsupported,
        "isConstant": info.is_constant,
        "keepsState": info.keeps_state,
        "constantBytes": info.constant_bytes,
    }


def _value(info: TensorInfo | ScalarInfo) -> dict[str, Any]:
    if isinstance(info, ScalarInfo):
        return {"name": info.name, "kind": info.kind, "value": info.value}
    dims = {"shape": info.shape, "dynamic": info.dynamic, "bounds": info.bounds}
    return {"name": info.name, "kind": "tensor", "dtype": info.dtype, **dims}
