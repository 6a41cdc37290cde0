"""The books against the venue: facts are booked, and balances must agree (safety.md §4)."""

from dataclasses import dataclass
from decimal import Decimal

from minara_core.clock import Clock, pause
from minara_core.errors import MinaraError
from minara_core.money import add
from minara_tools.app.fund_ledger import Difference, FundAccount, FundLedger
from minara_tools.app.ports import Venue
from minara_tools.domain.operations import LOOK_BACK
from minara_tools.domain.outcomes import ToolFailed


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
        twice, with the same amounts."""
        begin = self.clock.now()
        since = account.facts_time - LOOK_BACK
        facts = await self.venue.facts(account.account, since)
        await self.ledger.book(account.user_id, self.venue.name, facts, until=begin)
        balances = await self.venue.balances(account.account)
        again = await self.venue.facts(account.account, since)
        if again != facts:
            return
        await self.ledger.reconcile(
            account.user_id,
            Difference(
                venue=self.venue.name,
                account=account.account,
                totals={
                    one.asset: total
                    for one in balances
                    if (total := add(one.available, one.held)) != Decimal(0)
                },
                time=begin,
            ),
        )
