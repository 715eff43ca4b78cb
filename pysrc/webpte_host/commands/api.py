"""`serve.py api`: answers OpenAI's API with programs on this machine's GPU."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence

from webpte_host.base.device_names import NATIVE_HELP, device_name
from webpte_host.base.errors import HostError
from webpte_host.setup import environment
from webpte_serve.api import API_KEY

PORT = 8001  # the page uses 8000
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DESCRIPTION = """\
Serves language models over HTTP as OpenAI's API: chat completions (streams, tools, JSON,
log-probabilities), completions, embeddings, rerank. MODEL is a folder with one .pte and its
tokenizer.json, as `serve.py export FOLDER OUT` writes it, or a .pte with the tokenizer next to it,
or hf:OWNER/NAME in the Hugging Face Hub; NAME=MODEL gives it a name.

    python3 serve.py api web/samples/stories.pte
    curl http://localhost:8001/v1/chat/completions -H "Content-Type: application/json" \\
        -d '{"model": "stories", "messages": [{"role": "user", "content": "Hello"}]}'"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="serve.py api",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "models", nargs="+", metavar="MODEL", help="a folder, a file or hf:OWNER/NAME, or NAME=it"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=PORT, help="0 takes any free one (%(default)s)")
    parser.add_argument(
        "--device",
        default="native",
        type=device_name("native", "numpy"),
        help=f"native or numpy; {NATIVE_HELP} (native)",
    )
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        help=f"a key that requests must send; may be given several times, or as {API_KEY}",
    )
    parser.add_argument(
        "--origin", action="append", default=[], help="a site whose pages may use this server"
    )
    parser.add_argument(
        "--waiting", type=int, default=64, help="requests that may wait for a model (64)"
    )
    parser.add_argument(
        "--slots",
        type=int,
        default=4,
        help="requests that are answered at once, each with a KV cache of its own (4)",
    )
    parser.add_argument("--max-context", type=int, help="tokens; fewer need less memory")
    parser.add_argument("--kv-cache", choices=("f16", "int8"), help="a smaller KV cache")
    parser.add_argument(
        "--int8-products",
        action="store_true",
        help="round prompts to 8 bits as the weights are: faster, with a small error",
    )
    options = parser.parse_args(arguments)
    if not environment.inside():
        return environment.rerun_inside(["api", *arguments], with_browser=False)
    keys = [*options.key, *filter(None, [os.environ.get(API_KEY)])]
    if options.host not in _LOOPBACK and not keys:
        print(f"warning: everybody who reaches {options.host} is answered: give --key", flush=True)
    try:
        return asyncio.run(_serve(options, keys))
    except OSError as error:
        raise HostError(f"{options.host}:{options.port}: {error}") from error


async def _serve(options: argparse.Namespace, keys: Sequence[str]) -> int:
    import webpte
    from webpte_serve.api.app import ApiApp
    from webpte_serve.api.load_models import open_model
    from webpte_serve.api.server import ApiServer
    from webpte_serve.openai import Client, Model

    loading = {"max_context": options.max_context, "kv_cache": options.kv_cache}
    given = {name: value for name, value in loading.items() if value is not None}
    if options.int8_products:
        given["options"] = webpte.Options(int8_products=True)
    models = []
    for text in options.models:
        model = await open_model(text, options.device, options.waiting, options.slots, **given)
        print(f"{model.name}: loaded ({model.kind})", flush=True)
        if isinstance(model, Model) and model.one_by_one is not None:
            print(f"{model.name}: requests are answered one by one: {model.one_by_one}", flush=True)
        models.append(model)
    hosts = (*_LOOPBACK, "[::1]") if options.host in _LOOPBACK else ()
    app = ApiApp(Client(models), keys, hosts, options.origin)
    server = ApiServer(app, options.host, options.port)
    serving = asyncio.ensure_future(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.05)
    if server.started:
        port = server.servers[0].sockets[0].getsockname()[1]
        print(f"serving http://{options.host}:{port}/v1", flush=True)
    await serving
    return 0 if server.started else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
