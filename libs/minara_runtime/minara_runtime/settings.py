"""Base settings, and the one reader of the environment."""

from pathlib import Path
from typing import Annotated, Literal, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pydantic_settings
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from minara_core.errors import InvalidRequest
from minara_core.taxonomy import Origin
from minara_runtime.addresses import listening, peer_target

PREFIX = "MINARA_"
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class SettingsError(InvalidRequest):
    """A setting is missing or invalid; metadata `field` names it, its value is never shown."""


class TrustedIssuer(BaseModel):
    """An internal gRPC client's public key (PEM, or base64 of its DER) and its allowance."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kid: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
    public_key: str
    origins: tuple[Origin, ...]
    tool_sets: tuple[str, ...]
    ceiling: Annotated[int, Field(ge=1, le=3)] = 1


Address = Annotated[str, AfterValidator(peer_target)]
"""Where peers find a service, as a gRPC target; `addresses.peer_target` says what it is made of."""


class Settings(BaseSettings):
    """What every service reads; a service adds its own by subclassing.

    `listen` is where a service process binds, by default its own address if that is one
    `host:port`. `database_pool_size` is the most PostgreSQL connections of a process to one
    database, besides the few for its background. The three TLS files belong together: with them
    services show and check certificates.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=None,
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        hide_input_in_errors=True,
    )

    data_dir: Path = Field(default_factory=lambda: Path.home() / ".minara", validate_default=True)
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_content: bool = False
    otlp_endpoint: str | None = None
    trace_sample: float = Field(default=1.0, ge=0, le=1)
    metrics_address: Annotated[str, AfterValidator(listening)] | None = None
    trusted_issuers: tuple[TrustedIssuer, ...] = ()
    audit_webhook: str | None = None
    time_zone: str = "UTC"
    orchestrator_address: Address = "127.0.0.1:50051"
    workspace_address: Address = "127.0.0.1:50052"
    skills_address: Address = "127.0.0.1:50053"
    tools_address: Address = "127.0.0.1:50054"
    database_pool_size: int = Field(default=5, ge=1, le=100)
    listen: Annotated[str, AfterValidator(listening)] | None = None
    grace_seconds: float = Field(default=30.0, ge=0, le=600)
    tls_certificate: Path | None = None
    tls_private_key: Path | None = None
    tls_authority: Path | None = None

    @field_validator("data_dir")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("log_level", mode="before")
    @classmethod
    def _lower(cls, value: object) -> object:
        return value.lower() if isinstance(value, str) else value

    @field_validator("otlp_endpoint")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        if value is not None:
            url = urlsplit(value)
            if url.scheme not in {"http", "https"} or not url.hostname:
                raise ValueError("is no http(s)://host:port")
        return value

    @field_validator("audit_webhook")
    @classmethod
    def _private(cls, value: str | None) -> str | None:
        if value is not None:
            url = urlsplit(value)
            is_private = url.scheme == "https" or (
                url.scheme == "http" and url.hostname in _LOOPBACK
            )
            if not (is_private and url.hostname) or url.username is not None:
                raise ValueError("is no https:// URL (http:// only on loopback), without a log-in")
        return value

    @field_validator("time_zone")
    @classmethod
    def _known(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("is no IANA time zone") from None
        return value


S = TypeVar("S", bound=BaseSettings)


def read(cls: type[S]) -> S:
    """Settings of type `cls` from the environment.

    Raises SettingsError with the variable's name and the reason, never its value.
    """
    prefix = str(cls.model_config.get("env_prefix", ""))
    try:
        return cls()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        path = [str(part) for part in first["loc"]]
        name = prefix + (path[0].upper() if path else "")
        inner = f" ({'.'.join(path[1:])})" if len(path) > 1 else ""
        raise _settings_error(
            name, f"{first['msg'].removeprefix('Value error, ')}{inner}"
        ) from None
    except pydantic_settings.SettingsError as error:
        # Its text names the field in quotes; the value stands only in what it was raised from.
        field = str(error).partition('"')[2].partition('"')[0]
        raise _settings_error(prefix + field.upper(), "is no valid JSON") from None


def _settings_error(name: str, reason: str) -> SettingsError:
    return SettingsError(f"{name}: {reason}", metadata={"field": name})
