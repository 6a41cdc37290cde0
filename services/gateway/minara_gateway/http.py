"""The HTTP app: every route in one table, and one shape for every refusal."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response

from minara_core.clock import Clock
from minara_core.errors import InternalError, InvalidRequest, MinaraError, NotFound
from minara_core.ids import IdSource
from minara_core.reasons import ErrorReason
from minara_gateway import (
    approvals,
    audit,
    chat,
    goals,
    limits,
    models,
    orders,
    readiness,
    sessions,
    tools,
    trading,
)
from minara_gateway.auth import Authenticator, Border, bearer_token
from minara_gateway.confirmation import Confirmations
from minara_gateway.errors import problem
from minara_gateway.known_sessions import KnownSessions
from minara_gateway.peers import GrantDesk, Peers
from minara_gateway.readiness import Readiness
from minara_gateway.steering import Steering
from minara_gateway.store import GatewayStore
from minara_gateway.turns import Turns
from minara_runtime.logging import get_logger


def make_app(
    *,
    peers: Peers,
    grants: GrantDesk,
    confirmations: Confirmations,
    store: GatewayStore,
    known_sessions: KnownSessions,
    turns: Turns,
    steering: Steering,
    is_ready: Readiness,
    leaving: asyncio.Event,
    clock: Clock,
    ids: IdSource,
    hosts: frozenset[str],
) -> FastAPI:
    """The gateway's ASGI app. Health and readiness are the only routes without a token.

    Open streams end with a hint to resume once `leaving` is set.
    """
    app = FastAPI(title="Minara", version="1", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.peers = peers
    app.state.grants = grants
    app.state.confirmations = confirmations
    app.state.store = store
    app.state.known_sessions = known_sessions
    app.state.turns = turns
    app.state.steering = steering
    app.state.ids = ids
    app.state.authenticator = Authenticator(store, clock)
    app.state.readiness = is_ready
    app.state.leaving = leaving
    app.state.background = set[asyncio.Task[None]]()
    for part in (
        chat,
        approvals,
        sessions,
        goals,
        trading,
        audit,
        limits,
        models,
        orders,
        tools,
        readiness,
    ):
        app.include_router(part.router)
    app.add_api_route("/healthz", _healthz, methods=["GET"])
    app.add_api_route("/", _welcome, methods=["GET"])
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        MinaraError: _refusal,
        RequestValidationError: _invalid,
        HTTPException: _http_error,
        Exception: _bug,
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    app.add_middleware(cast("Any", Border), hosts=hosts)
    return app


async def _healthz() -> dict[str, bool]:
    return {"ok": True}


async def _welcome(request: Request, token: str = "") -> PlainTextResponse:
    """For a person who opens the printed address; the token may stand in it, here alone."""
    authenticator: Authenticator = request.app.state.authenticator
    await authenticator.caller_of(token or bearer_token(request))
    return PlainTextResponse(
        "Minara runs, and this token is good.\n\n"
        "Chat in a terminal:  minara chat\n"
        'Or over HTTP:        POST /v1/chat  {"message": "price of BTC"}\n'
        "                     with the header  Authorization: Bearer <token>\n"
    )


async def _refusal(request: Request, error: MinaraError) -> Response:
    return problem(error, instance=request.url.path)


async def _invalid(request: Request, error: RequestValidationError) -> Response:
    first = cast("dict[str, Any]", error.errors()[0])
    place = [str(part) for part in first["loc"] if part != "body"]
    if first["type"] == "json_invalid":
        refusal = InvalidRequest("the body is not valid JSON")
    else:
        field = ".".join(place)
        refusal = InvalidRequest(f"{field}: {first['msg']}", metadata={"field": field})
    return problem(refusal, instance=request.url.path)


async def _http_error(request: Request, error: HTTPException) -> Response:
    if isinstance(error.__cause__, MinaraError):  # the body was refused while it was read
        return problem(error.__cause__, instance=request.url.path)
    if error.status_code == 404:
        return problem(NotFound("no such route"), instance=request.url.path)
    refusal = InvalidRequest(str(error.detail), reason=ErrorReason.REQUEST_INVALID)
    response = problem(refusal, instance=request.url.path)
    response.status_code = error.status_code
    return response


async def _bug(request: Request, error: Exception) -> Response:
    ids: IdSource = request.app.state.ids
    reference = ids.new()
    get_logger("gateway/http").error(
        "request_broke", reference_id=reference, path=request.url.path, exc_info=error
    )
    return problem(
        InternalError(
            f"internal error; reference {reference}", metadata={"reference_id": reference}
        ),
        instance=request.url.path,
    )
