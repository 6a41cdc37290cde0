"""Events are kept for some days; then a cursor into them is answered with what is lost."""

from datetime import timedelta

from minara_core.clock import Clock, pause
from minara_orchestrator.app.turn_ports import TurnEvents

LOOK_EVERY_SECONDS = 3_600.0


class EventExpiry:
    def __init__(self, events: TurnEvents, clock: Clock, *, retention: timedelta) -> None:
        self._events = events
        self._clock = clock
        self._retention = retention

    async def expire(self) -> None:
        """Delete the events of all turns that have been over for longer than the retention."""
        while await self._events.expire(self._clock.now() - self._retention):
            pass

    async def expire_forever(self) -> None:
        """Expire now and every hour; runs until cancelled."""
        while True:
            await self.expire()
            await pause(LOOK_EVERY_SECONDS)
