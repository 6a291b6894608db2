"""The limits of every request before a page sees it: names, rate, size, time, and headers."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections import OrderedDict
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from playbook_supervisor.inbox.web.access import ENTER, Access, Site

LARGEST_BODY = 64 * 1024
"""Bytes of a form."""
LARGEST_HEADERS = 16 * 1024
SECONDS = 10.0
"""Seconds that a request's headers, or a form, may take to arrive."""
_RATE, _BURST = 30.0, 120.0  # requests of one client in a second, and at once
_UNREAD = (405, 411, 413)  # the status of refused requests that may have a long body
_MOST_CLIENTS = 1_000
_MOST_FIELDS = 64

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With `no-referrer`, browsers would not say either from which site a form was sent.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_AT_LINKS = {**_HEADERS, "Referrer-Policy": "strict-origin"}  # their addresses hold a token


class RefusedError(Exception):
    """A request that no page sees; `status` and a sentence for its sender."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Rates:
    """The requests that each client has left: as many as it may send at once, refilled by time."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> bool:
        now = time.monotonic()
        left, at = self._left.pop(client, (self._burst, now))
        left = min(left + (now - at) * self._rate, self._burst)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > _MOST_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


class Gatekeeper:
    """Wraps the pages: refuses foreign names and too many requests, and adds headers."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access, self._site = app, access, access.site
        self._rates = Rates(_RATE, _BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                added = _AT_LINKS if scope["path"] == ENTER else _HEADERS
                for name, value in added.items():
                    headers.setdefault(name, value)
                if self._site.secure:
                    headers["Strict-Transport-Security"] = "max-age=31536000"
            await send(message)

        try:
            self._check(scope)
        except RefusedError as refused:
            closing = {"Connection": "close"} if refused.status in _UNREAD else None
            reply = PlainTextResponse(f"{refused.sentence}\n", refused.status, closing)
            await reply(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        _check_form(scope["method"], headers)
        if len(headers.getlist("host")) != 1 or not self._site.allows(headers["host"]):
            raise RefusedError(
                421, f"This is not the inbox of that name. It is at {self._site.origin}"
            )
        visitor = self._access.visitor(cookies_of(headers))
        address = (scope.get("client") or ("unknown",))[0]
        if not self._rates.take(visitor.browser if visitor else _network_of(address)):
            raise RefusedError(429, "Too many requests. Wait a moment.")


def _check_form(method: str, headers: Headers) -> None:
    """Only a form has a body, and it says how long it is: nothing else is ever read."""
    if method not in ("GET", "HEAD", "POST"):
        raise RefusedError(405, "The inbox knows GET and POST.")
    if "transfer-encoding" in headers:
        raise RefusedError(411, "The inbox takes forms that say how long they are.")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > (LARGEST_BODY if method == "POST" else 0):
        raise RefusedError(413, "That is too long.")


def _network_of(address: str) -> str:
    """The address, or the network that IPv6 gives to one client."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if number.version == 4 or number.is_loopback:
        return address
    return str(ipaddress.ip_network((number.packed, 64), strict=False))


def cookies_of(headers: Headers) -> dict[str, str]:
    """The cookies of a request; none if they cannot be read."""
    try:
        parsed = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: morsel.value for name, morsel in parsed.items()}


async def form_of(request: Request, site: Site) -> dict[str, list[str]]:
    """The fields of a form of our own pages. RefusedError for any other, and for a large one."""
    headers = request.headers
    same = headers.get("sec-fetch-site", "same-origin") == "same-origin"
    if not (same and site.is_own(headers.get("origin", ""), headers["host"])):
        raise RefusedError(403, "This form is not from a page of the inbox.")
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != "application/x-www-form-urlencoded":
        raise RefusedError(415, "The inbox takes forms of its own pages.")
    try:
        async with asyncio.timeout(SECONDS):
            body = await request.body()  # the gatekeeper has looked at its length
    except TimeoutError:
        raise RefusedError(408, "The form took too long to arrive.") from None
    fields: dict[str, list[str]] = {}
    try:
        for name, value in parse_qsl(
            body.decode("utf-8"), keep_blank_values=True, max_num_fields=_MOST_FIELDS
        ):
            fields.setdefault(name, []).append(value)
    except ValueError:
        raise RefusedError(400, "The form cannot be read.") from None
    return fields


class ImpatientProtocol(H11Protocol):
    """Closes a connection whose next request's headers have not arrived in ten seconds.

    uvicorn bounds only the time between two requests.
    """

    _overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        waits = self.cycle is None or self.cycle.response_complete
        if waits and not self.transport.is_closing():
            self._expect()
        else:
            self._stop_expecting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        super().connection_lost(exc)

    def _expect(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(SECONDS, self._close)

    def _stop_expecting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _close(self) -> None:
        self._overdue = None
        self.transport.close()
