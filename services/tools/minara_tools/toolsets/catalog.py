"""Every tool that ships; to add one, write its file and name it here."""

from minara_core.clock import Clock
from minara_tools.app.fund_reads import FundReads
from minara_tools.app.kept_results import KeptResults
from minara_tools.app.limit_store import AddressBook, LimitStore
from minara_tools.app.ports import FileBox, MarketData, Venue
from minara_tools.app.stores import TradingStates
from minara_tools.domain.registry import ToolEntry
from minara_tools.toolsets.file.read_file import read_file
from minara_tools.toolsets.file.write_file import write_file
from minara_tools.toolsets.read.get_fear_greed import get_fear_greed
from minara_tools.toolsets.read.get_fills import get_fills
from minara_tools.toolsets.read.get_limits import get_limits
from minara_tools.toolsets.read.get_orders import get_orders
from minara_tools.toolsets.read.get_portfolio import get_portfolio
from minara_tools.toolsets.read.get_price import get_price
from minara_tools.toolsets.read.get_trading_state import get_trading_state
from minara_tools.toolsets.read.get_trending import get_trending
from minara_tools.toolsets.read.minara_account import minara_account
from minara_tools.toolsets.read.minara_pnl import minara_pnl
from minara_tools.toolsets.read.minara_total_balance import minara_total_balance
from minara_tools.toolsets.read.read_result import read_result
from minara_tools.toolsets.read.search_tokens import search_tokens
from minara_tools.toolsets.trade.buy_token import buy_token
from minara_tools.toolsets.trade.cancel_order import cancel_order
from minara_tools.toolsets.trade.place_limit_order import place_limit_order
from minara_tools.toolsets.trade.sell_token import sell_token
from minara_tools.toolsets.trade.swap_tokens import swap_tokens
from minara_tools.toolsets.transfer.transfer_token import transfer_token
from minara_tools.toolsets.transfer.withdrawals import send_external, withdraw_token


def builtin_tools(
    *, market: MarketData, venue: Venue, files: FileBox, clock: Clock
) -> tuple[ToolEntry, ...]:
    """The tools over the world outside: its market, the venue, a person's files."""
    return (
        get_price(market),
        get_trending(market),
        get_fear_greed(market),
        search_tokens(market),
        get_portfolio(venue, market, clock),
        minara_total_balance(venue, market, clock),
        minara_account(venue),
        buy_token(venue, market),
        sell_token(venue, market),
        swap_tokens(venue, market),
        place_limit_order(venue, market),
        cancel_order(venue, clock),
        transfer_token(venue, market, clock),
        send_external(venue, market, clock),
        read_file(files),
        write_file(files),
    )


def ledger_tools(
    *,
    market: MarketData,
    venue: Venue,
    clock: Clock,
    reads: FundReads,
    limits: LimitStore,
    addresses: AddressBook,
    states: TradingStates,
    kept: KeptResults,
) -> tuple[ToolEntry, ...]:
    """The tools over our own books: what a person did, may do, whom they know, and what tools told
    them."""
    return (
        get_orders(venue, reads),
        get_fills(reads),
        get_limits(limits),
        get_trading_state(states),
        minara_pnl(reads, market, clock),
        read_result(kept),
        withdraw_token(venue, market, addresses, clock),
    )
