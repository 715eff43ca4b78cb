"""Work for a client, which ends early if the client goes away or the server is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from webpte_serve.openai import RequestError

T = TypeVar("T")


class Watch:
    """Ends work when its client has gone."""

    def __init__(self) -> None:
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End all work, also work that begins later."""
        self._stopped.set()

    async def run(self, receive: Receive, work: Awaitable[T]) -> T:
        """Return the result of work for a complete request.

        Raises ClientDisconnect when the client has gone, and RequestError when the server stops;
        the work has then ended, so that the model is free.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(_gone(receive))
        stopping = asyncio.ensure_future(self._stopped.wait())
        all_three = (working, leaving, stopping)
        try:
            await asyncio.wait(all_three, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if leaving.done():
                raise ClientDisconnect
            raise RequestError("the server stops: send the request again later", status=503)
        finally:
            for one in all_three:
                one.cancel()
            await asyncio.gather(*all_three, return_exceptions=True)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
