"""The refusals that providers give most often, in their words."""

from types import MappingProxyType

from minara_llm.wire.bodies import Api, Refusal

_MESSAGES_KINDS = MappingProxyType(
    {
        400: "invalid_request_error",
        401: "authentication_error",
        402: "billing_error",
        403: "permission_error",
        404: "not_found_error",
        413: "request_too_large",
        429: "rate_limit_error",
        504: "timeout_error",
        529: "overloaded_error",
    }
)
_OPENAI_KINDS = MappingProxyType(
    {400: "invalid_request_error", 401: "invalid_request_error", 404: "invalid_request_error",
     429: "requests"}
)  # fmt: skip
_OPENAI_CODES = MappingProxyType(
    {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
)
_SENTENCES = MappingProxyType(
    {
        401: "Incorrect API key provided.",
        404: "The model does not exist or you do not have access to it.",
        429: "Too many requests. Please slow down.",
        500: "The server had an error while processing your request.",
        503: "The service is temporarily unavailable.",
        529: "Overloaded",
    }
)


def usual_refusal(api: Api, status: int) -> Refusal:
    """What the API usually says with this status."""
    is_messages = api is Api.MESSAGES
    kinds, otherwise = (
        (_MESSAGES_KINDS, "api_error") if is_messages else (_OPENAI_KINDS, "server_error")
    )
    return Refusal(
        status=status,
        kind=kinds.get(status, otherwise),
        message=_SENTENCES.get(status, "Something went wrong."),
        code=None if is_messages else _OPENAI_CODES.get(status),
    )


def overflow(api: Api, tokens: int, window: int) -> Refusal:
    """What the API says of a prompt of `tokens` that its model cannot read."""
    match api:
        case Api.MESSAGES:
            message, code = f"prompt is too long: {tokens} tokens > {window} maximum", None
        case Api.CHAT:
            message = (
                f"This model's maximum context length is {window} tokens. However, your messages "
                f"resulted in {tokens} tokens. Please reduce the length of the messages."
            )
            code = "context_length_exceeded"
        case Api.RESPONSES:
            message = (
                "Your input exceeds the context window of this model. Please adjust your input "
                "and try again."
            )
            code = "context_length_exceeded"
    return Refusal(
        status=400,
        kind="invalid_request_error",
        message=message,
        code=code,
        param={Api.CHAT: "messages", Api.RESPONSES: "input"}.get(api),
    )
