"""Who is calling, and from where (platform.md §4).

Order of refusals: foreign Host, foreign Origin, wrong content type, too large a body, then the
token. Health is the only route without one.
"""

import re
from collections.abc import Awaitable, Callable

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minara_core.clock import Clock
from minara_core.errors import InvalidRequest, MinaraError, NotAuthenticated, NotPermitted, TooLarge
from minara_core.reasons import ErrorReason
from minara_core.taxonomy import Scope as TokenScope
from minara_gateway.errors import problem
from minara_gateway.store import Caller, GatewayStore

BODY_LIMIT = 256 * 1024
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
)


class Border:
    """ASGI layer in front of everything: hosts, origins, content types, sizes, headers."""

    def __init__(self, app: ASGIApp, *, hosts: frozenset[str]) -> None:
        self._app = app
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            _check_host(request, self._hosts)
            if request.method not in _SAFE_METHODS:
                _check_origin(request, self._hosts)
                _check_content(request)
        except MinaraError as error:
            await problem(error, instance=request.url.path)(scope, receive, _decorated(send))
            return
        await self._app(scope, _limited(receive), _decorated(send))


_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]{1,5})?")


def _hostname(authority: str) -> str:
    """The host of a Host header, or nothing when it is more or less than `host[:port]`."""
    found = _AUTHORITY.fullmatch(authority)
    return found[1].strip("[]").lower() if found else ""


def _only(request: Request, name: str) -> str | None:
    """A header that may come once: what comes twice is nobody's."""
    values = request.headers.getlist(name)
    return values[0] if len(values) == 1 else ("" if values else None)


def _check_host(request: Request, hosts: frozenset[str]) -> None:
    authority = _only(request, "host") or ""
    if _hostname(authority) not in hosts:
        raise NotPermitted(
            "this Host is not one of ours",
            reason=ErrorReason.HOST_FOREIGN,
            metadata={"host": authority[:100]},
        )


def _check_origin(request: Request, hosts: frozenset[str]) -> None:
    origin = _only(request, "origin")
    site = _only(request, "sec-fetch-site")
    site = "none" if site is None else site
    authority = request.headers.get("host", "")
    own = origin is None or origin in {f"http://{authority}", f"https://{authority}"}
    if not own or site not in {"none", "same-origin"}:
        raise NotPermitted(
            "requests that change something come from our own pages or from programs",
            reason=ErrorReason.ORIGIN_FOREIGN,
            metadata={"origin": (origin or site)[:100]},
        )


def _check_content(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    has_body = "transfer-encoding" in request.headers or (
        request.headers.get("content-length", "0") != "0"
    )
    if (has_body or kind) and kind != "application/json":
        raise InvalidRequest(
            "send JSON: Content-Type: application/json",
            reason=ErrorReason.CONTENT_TYPE_UNSUPPORTED,
            metadata={"content_type": kind[:100]},
        )
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > BODY_LIMIT:
        raise too_large()


def too_large() -> TooLarge:
    return TooLarge(
        f"a body is at most {BODY_LIMIT} bytes",
        reason=ErrorReason.BODY_TOO_LARGE,
        metadata={"limit": str(BODY_LIMIT)},
    )


def _limited(receive: Receive) -> Receive:
    size = 0

    async def limited() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        if size > BODY_LIMIT:
            raise too_large()
        return message

    return limited


def _decorated(send: Send) -> Send:
    async def decorated(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_HEADERS]
        await send(message)

    return decorated


def bearer_token(request: Request) -> str:
    """The token of the request; raises NotAuthenticated (TOKEN_MISSING)."""
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise NotAuthenticated(
            "send your token: Authorization: Bearer …", reason=ErrorReason.TOKEN_MISSING
        )
    return token.strip()


KNOWN_SECONDS = 30.0


class Authenticator:
    """Maps bearer tokens to callers; remembers the good ones for half a minute, so that a turn
    costs no look-up and a revoked token soon opens nothing."""

    def __init__(self, store: GatewayStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._known: dict[str, tuple[float, Caller]] = {}

    async def caller(self, request: Request) -> Caller:
        """Raises NotAuthenticated (TOKEN_MISSING, TOKEN_INVALID)."""
        return await self.caller_of(bearer_token(request))

    async def caller_of(self, token: str) -> Caller:
        """Raises NotAuthenticated (TOKEN_INVALID)."""
        now = self._clock.monotonic()
        known = self._known.get(token)
        if known is not None and now < known[0]:
            return known[1]
        self._known.pop(token, None)
        caller = await self._store.find_caller(token)
        if caller is None:
            raise NotAuthenticated("this token is not known here", reason=ErrorReason.TOKEN_INVALID)
        if len(self._known) > 1_000:
            self._known.clear()
        self._known[token] = (now + KNOWN_SECONDS, caller)
        return caller


def requires(scope: TokenScope) -> Callable[[Request], Awaitable[Caller]]:
    """A route dependency: the caller, who must hold `scope`; raises NotPermitted otherwise."""

    async def dependency(request: Request) -> Caller:
        authenticator: Authenticator = request.app.state.authenticator
        caller = await authenticator.caller(request)
        if scope not in caller.scopes:
            raise NotPermitted(
                f"this token lacks the scope {scope}",
                reason=ErrorReason.SCOPE_MISSING,
                metadata={"scope": scope},
            )
        return caller

    return dependency
