"""The books against the venue: facts are booked, and balances must agree (safety.md §4)."""

from dataclasses import dataclass
from datetime import timedelta

from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError
from minara_core.money import add
from minara_tools.app.fund_ledger import Difference, FundAccount, FundLedger
from minara_tools.app.ports import Venue
from minara_tools.domain.operations import LOOK_BACK
from minara_tools.domain.outcomes import ToolFailed
from minara_tools.domain.postings import differences

CURSOR_LAG = timedelta(minutes=10)
"""How far the time until which all facts are booked may stay behind while nothing happens."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    ledger: FundLedger
    venue: Venue
    clock: Clock
    every_seconds: float

    async def run_forever(self) -> None:
        while True:
            await self.run_once()
            await pause(self.every_seconds)

    async def run_once(self) -> None:
        """Look after every account whose books are open; one that the venue cannot answer for waits
        for the next time."""
        for account in await self.ledger.accounts(self.venue.name):
            try:
                await self.reconcile(account)
            except (ToolFailed, MinaraError, OSError, TimeoutError):
                continue

    async def reconcile(self, account: FundAccount) -> None:
        """Book what happened to the account, then compare. A difference counts when it is found
        twice, with the same amounts. Where nothing is new, nothing is written."""
        begin, venue = self.clock.now(), self.venue.name
        is_ahead = account.facts_time > begin  # the clock was set back since: read all anew
        since = account.open_time if is_ahead else account.facts_time - LOOK_BACK
        facts = await self.venue.facts(account.account, since)
        is_behind = begin - account.facts_time > CURSOR_LAG
        if is_ahead or is_behind or await self.ledger.has_unbooked(account, facts):
            read = (account.account, begin)
            await self.ledger.book(account.user_id, venue, facts, read=read)
        balances = await self.venue.balances(account.account)
        if await self.venue.facts(account.account, since) != facts:
            return
        seen = Difference(
            venue=venue,
            account=account.account,
            totals={one.asset: add(one.available, one.held) for one in balances},
            time=begin,
        )
        standing = await self.ledger.standing(account.user_id, venue, account.account)
        if account.differences or differences(standing.balances, seen.totals):
            await self.ledger.reconcile(account.user_id, seen)
