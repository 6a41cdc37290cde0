"""Every tool that ships; to add one, write its file and name it here."""

from minara_core.clock import Clock
from minara_tools.app.ports import FileBox, MarketData, Venue
from minara_tools.domain.registry import ToolEntry
from minara_tools.toolsets.file.read_file import read_file
from minara_tools.toolsets.file.write_file import write_file
from minara_tools.toolsets.read.get_fear_greed import get_fear_greed
from minara_tools.toolsets.read.get_portfolio import get_portfolio
from minara_tools.toolsets.read.get_price import get_price
from minara_tools.toolsets.read.get_trending import get_trending
from minara_tools.toolsets.read.search_tokens import search_tokens
from minara_tools.toolsets.trade.buy_token import buy_token
from minara_tools.toolsets.trade.sell_token import sell_token


def builtin_tools(
    *, market: MarketData, venue: Venue, files: FileBox, clock: Clock
) -> tuple[ToolEntry, ...]:
    """The tools of the sets `read`, `trade` and `file`, over these ports."""
    return (
        get_price(market),
        get_trending(market),
        get_fear_greed(market),
        search_tokens(market),
        get_portfolio(venue, market, clock),
        buy_token(venue, market),
        sell_token(venue, market),
        read_file(files),
        write_file(files),
    )
