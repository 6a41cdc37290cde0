"""What the tools service reads from the environment."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from minara_core.money import AMOUNT_PATTERN, parse_amount
from minara_runtime.settings import Settings

_Ticker = Annotated[str, Field(pattern=r"^[A-Z0-9]{1,20}$")]
_Amount = Annotated[str, Field(pattern=AMOUNT_PATTERN)]


class ToolsSettings(Settings):
    """`MINARA_…` variables. Without a database URL both databases lie in the data folder; the paper
    venue's is its own, never one transaction with ours. `paper_balances` is a JSON object of asset
    and amount, both text: what a new paper account holds."""

    tools_database_url: str | None = None
    paper_database_url: str | None = None
    paper_balances: Mapping[_Ticker, _Amount] = Field(default_factory=lambda: {"USDC": "100000"})
    market: Literal["simulated"] = "simulated"
    venue: Literal["paper"] = "paper"

    @property
    def starting_balances(self) -> dict[str, Decimal]:
        """`paper_balances` as amounts."""
        return {asset: parse_amount(text) for asset, text in self.paper_balances.items()}
