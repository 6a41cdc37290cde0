"""An account's books are opened with what the venue says it holds, before its first move."""

from datetime import timedelta

from minara_core.clock import Clock
from minara_core.errors import Unavailable
from minara_core.ids import UserId
from minara_core.money import add
from minara_core.reasons import ErrorReason
from minara_tools.app.fund_ledger import FundLedger
from minara_tools.app.ports import Venue

_LOOKS = 3
_FIRST_LOOK_BACK = timedelta(hours=1)


class BookOpening:
    def __init__(self, ledger: FundLedger, venue: Venue, clock: Clock) -> None:
        self._ledger = ledger
        self._venue = venue
        self._clock = clock
        self._opened: set[UserId] = set()

    async def ensure(self, user_id: UserId) -> None:
        """Open the books of the person's accounts that have none yet. Raises Unavailable while so
        much happens to an account that its balances cannot be read with what happened before."""
        if user_id in self._opened:
            return
        accounts = await self._venue.accounts(user_id)
        books = await self._ledger.accounts(self._venue.name, user_id)
        known = {one.account for one in books}
        for one in accounts:
            if one.account not in known:
                await self._open(user_id, one.account)
        self._opened.add(user_id)

    async def _open(self, user_id: UserId, account: str) -> None:
        since = self._clock.now() - _FIRST_LOOK_BACK
        for _ in range(_LOOKS):
            before = await self._venue.facts(account, since)
            balances = await self._venue.balances(account)
            if await self._venue.facts(account, since) == before:
                await self._ledger.open_account(
                    user_id,
                    self._venue.name,
                    account,
                    balances={one.asset: add(one.available, one.held) for one in balances},
                    included=before,
                    since=since,
                    now=self._clock.now(),
                )
                return
        raise Unavailable(
            f"the venue account {account} changes too fast to open its books",
            reason=ErrorReason.PEER_UNAVAILABLE,
        )
