"""Every tool that ships, over fakes; those of the ledger over a database nobody connects to."""

from minara_runtime.database import Database
from minara_tools.adapters.sql_addresses import SqlAddresses
from minara_tools.adapters.sql_fund_reads import SqlFundReads
from minara_tools.adapters.sql_kept_results import SqlKeptResults
from minara_tools.adapters.sql_limits import SqlLimits
from minara_tools.adapters.sql_trading import SqlTradingStates
from minara_tools.domain.registry import ToolEntry
from minara_tools.toolsets.catalog import builtin_tools, ledger_tools
from support.clock import FixedClock
from support.tools.venue import FakeVenue
from support.tools_world import FakeFiles, FakeMarket


def all_tools() -> tuple[ToolEntry, ...]:
    """For what the tools say of themselves: those of the ledger cannot be called."""
    clock = FixedClock()
    market = FakeMarket(clock)
    venue = FakeVenue(market, clock)
    books = Database.open("sqlite:////nowhere/never.db")
    ledger = ledger_tools(
        market=market,
        venue=venue,
        clock=clock,
        reads=SqlFundReads(books),
        limits=SqlLimits(books),
        addresses=SqlAddresses(books),
        states=SqlTradingStates(books, lambda: False),
        kept=SqlKeptResults(books),
    )
    built = builtin_tools(market=market, venue=venue, files=FakeFiles(), clock=clock)
    return (*built, *ledger)
