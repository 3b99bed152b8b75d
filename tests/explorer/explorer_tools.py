"""Clients of the explorer, with and without a network."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx

PORT = 4321
TOKEN = "token-of-these-tests"
COOKIE = {"Cookie": f"unweave-explorer-{PORT}={TOKEN}"}
OWN = f"http://127.0.0.1:{PORT}"
IDLE = 2
"""The inactive latent of the small models."""


class Client:
    """Sends single requests to an app as if it were served at `PORT`."""

    def __init__(self, app, cookie=COOKIE):
        self.app = app
        self.cookie = cookie

    def request(self, method, path, headers=None, **options):
        async def answer():
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            own = {"Origin": OWN, **self.cookie}
            async with httpx.AsyncClient(transport=transport, base_url=OWN, headers=own) as client:
                return await client.request(method, path, headers=headers, **options)

        # This thread may be running the event loop of an open browser.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(answer())).result()

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)


@contextmanager
def opened(address):
    """Open the address once, as a browser does, and yield a client with the cookie."""
    # Long timeout for busy machines.
    with httpx.Client(base_url=address.split("?")[0], timeout=60) as client:
        client.get(address).raise_for_status()
        yield client
