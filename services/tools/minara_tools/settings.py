"""What the tools service reads from the environment."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field, SecretStr

from minara_core.money import AMOUNT_PATTERN, parse_amount
from minara_runtime.settings import Settings, SettingsError

_Ticker = Annotated[str, Field(pattern=r"^[A-Z0-9]{1,20}$")]
_Amount = Annotated[str, Field(pattern=AMOUNT_PATTERN)]


class ToolsSettings(Settings):
    """`MINARA_…` variables. Without a database URL both databases lie in the data folder; the paper
    venue's is its own, never one transaction with ours. `paper_balances` is a JSON object of asset
    and amount, both text: what a new paper account holds.

    `paper_venue_url` is a paper venue that another process serves (`minara dev venue`), instead of
    the one in this process; both sides then need the same `paper_venue_secret`."""

    tools_database_url: str | None = None
    paper_database_url: str | None = None
    paper_balances: Mapping[_Ticker, _Amount] = Field(default_factory=lambda: {"USDC": "100000"})
    paper_venue_url: Annotated[str, Field(pattern=r"^https?://[^/\s]+$")] | None = None
    paper_venue_secret: Annotated[SecretStr, Field(min_length=16)] | None = None
    market: Literal["simulated"] = "simulated"
    venue: Literal["paper"] = "paper"

    @property
    def starting_balances(self) -> dict[str, Decimal]:
        """`paper_balances` as amounts."""
        return {asset: parse_amount(text) for asset, text in self.paper_balances.items()}

    def paper_secret(self) -> bytes:
        """What signs requests to a served paper venue. Raises SettingsError without one."""
        if self.paper_venue_secret is None:
            field = "MINARA_PAPER_VENUE_SECRET"
            raise SettingsError(
                f"{field}: the served paper venue and its clients need the same one",
                metadata={"field": field},
            )
        return self.paper_venue_secret.get_secret_value().encode()
