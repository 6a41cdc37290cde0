"""What the gateway reads from the environment."""

from pydantic import Field

from minara_runtime.settings import Settings


class GatewaySettings(Settings):
    """`MINARA_…` variables. `hosts` are further names by which the gateway may be called."""

    gateway_database_url: str | None = None
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65535)
    hosts: tuple[str, ...] = ()
    http_token: str | None = None
    url: str | None = None
