"""What holds for the duration of one inbound call: its grant and its deadline."""

import contextvars
import time

from minara_core.errors import NotAuthenticated
from minara_core.grant import Grant

MARGIN_SECONDS = 0.01
"""Left of an inbound deadline for answering, when it caps an outbound call."""

_grant: contextvars.ContextVar[Grant] = contextvars.ContextVar("minara_grant")
_deadline: contextvars.ContextVar[float | None] = contextvars.ContextVar(
    "minara_deadline", default=None
)


def current_grant() -> Grant:
    """The verified grant of the call being served. Raises NotAuthenticated outside of one."""
    grant = _grant.get(None)
    if grant is None:
        raise NotAuthenticated("no call is being served, so there is no grant")
    return grant


def set_grant(grant: Grant) -> None:
    """Bind the grant for the rest of this call's context; the grant interceptor does it."""
    _grant.set(grant)


def set_time_remaining(seconds: float | None) -> None:
    """Bind the deadline of the call being served; None when it has none."""
    _deadline.set(None if seconds is None else time.monotonic() + seconds)


def capped_timeout(timeout: float | None) -> float | None:
    """`timeout` seconds, but no more than the call being served has left, less a margin."""
    deadline = _deadline.get()
    if deadline is None:
        return timeout
    left = max(0.0, deadline - time.monotonic() - MARGIN_SECONDS)
    return left if timeout is None else min(timeout, left)


def detached() -> contextvars.Context:
    """A copy of this context without the deadline, for a task that outlives the call.

    A turn belongs to its session: it must not die with the call that started it.
    """
    context = contextvars.copy_context()
    context.run(_deadline.set, None)
    return context
