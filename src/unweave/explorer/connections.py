"""Limits on connections: a timeout for incomplete requests, and a maximum number."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["Connection", "connections_with"]

PROGRESS_BYTES = 64 * 2**10
"""Number of bytes that restarts the timer, so that large uploads over slow links succeed."""
MAX_CONNECTIONS = 256
WAITING = (h11.IDLE, h11.SEND_BODY)
"""States of a client that still has headers or the rest of a body to send."""


class Connection(H11Protocol):
    """uvicorn's HTTP protocol, with a timer that runs while a request is incomplete.

    Above `MAX_CONNECTIONS`, the oldest connection without a complete request is closed.
    Connections that have never sent a request are closed first, so that a flood does not cut off a
    browser.
    """

    timeout: float
    """Timeout in seconds for a request, or for the next `PROGRESS_BYTES` of it, to arrive."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._arrived = 0
        self._timer: asyncio.TimerHandle | None = None
        self._watch()
        if len(self.connections) > MAX_CONNECTIONS:
            others = [c for c in self.connections if isinstance(c, Connection) and not c._answers]
            oldest = min(others, key=lambda other: (other._has_requested, other._since))
            self.connections.discard(oldest)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._arrived += len(data)
        if self._arrived >= PROGRESS_BYTES:
            self._arrived = 0
            self._stop_timer()
        super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # the response has already started
            self.transport.abort()

    @property
    def _has_requested(self) -> bool:
        """Whether a request has arrived on this connection."""
        return self.cycle is not None

    @property
    def _answers(self) -> bool:
        """Whether a complete request is being answered."""
        begun = self.cycle is not None and not self.cycle.response_complete
        return begun and self.conn.their_state not in WAITING

    def _watch(self) -> None:
        if self.conn.their_state not in WAITING or self.transport.is_closing():
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.timeout, self._give_up)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if self.flow.read_paused:  # the client is waiting for the server
            self._watch()
        else:
            self.transport.abort()


def connections_with(seconds: float) -> type[Connection]:
    """Return the protocol class for uvicorn, with a timeout in seconds."""
    return type("Connection", (Connection,), {"timeout": seconds})
