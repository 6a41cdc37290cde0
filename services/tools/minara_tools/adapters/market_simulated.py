"""A simulated market: every price is a function of seed, symbol and clock.

Every answer says `"source": "simulated"`. Nothing is fetched, and two processes with the same seed
see the same prices at the same minute.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from minara_core.clock import Clock
from minara_core.lexicon import fold, parse
from minara_core.money import Rounding, add, divide, multiply, parse_amount, quantize, subtract
from minara_core.reasons import DenialReason
from minara_core.taxonomy import AssetClass
from minara_tools.adapters.market_simulated_walk import walk
from minara_tools.app.ports import FearGreed, PricePoint, TokenListing
from minara_tools.domain.outcomes import ToolFailed

SOURCE = "simulated"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)
_DAY_MINUTES = 1_440
_ONE = Decimal(1)
_HUNDRED = Decimal(100)
_PERCENT_STEP = Decimal("0.01")
_COARSEST_STEP = Decimal("0.01")
_DIGITS = 6

_SWING: Mapping[AssetClass, Decimal] = MappingProxyType(
    {
        AssetClass.CRYPTO_MAJOR: Decimal("0.12"),
        AssetClass.CRYPTO_ALT: Decimal("0.25"),
        AssetClass.CRYPTO_MEME: Decimal("0.45"),
        AssetClass.STABLECOIN: Decimal("0.001"),
        AssetClass.EQUITY: Decimal("0.1"),
        AssetClass.COMMODITY: Decimal("0.08"),
        AssetClass.FX: Decimal("0.02"),
        AssetClass.NFT: Decimal("0.2"),
    }
)
"""How far, as a fraction, a price may stand from its reference."""

_TRENDING = frozenset({AssetClass.CRYPTO_MAJOR, AssetClass.CRYPTO_ALT, AssetClass.CRYPTO_MEME})
_MOOD_ASSETS = ("BTC", "ETH", "SOL")
_MOODS = (
    (25, "Extreme Fear"),
    (45, "Fear"),
    (55, "Neutral"),
    (75, "Greed"),
    (101, "Extreme Greed"),
)
_DAY_WEIGHT = Decimal(2)
_WEEK_WEIGHT = Decimal("1.5")


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedAsset:
    """`walks_as` is the asset whose price this one has; usually itself."""

    symbol: str
    name: str
    asset_class: AssetClass
    reference: Decimal
    swing: Decimal
    walks_as: str


class SimulatedMarket:
    """Implements MarketData."""

    def __init__(self, clock: Clock, *, seed: str = "minara") -> None:
        self._clock = clock
        self._seed = seed

    async def prices(self, symbols: tuple[str, ...]) -> tuple[PricePoint, ...]:
        now = self._clock.now()
        return tuple(self._point(_known(symbol), now) for symbol in symbols)

    async def trending(self, limit: int) -> tuple[PricePoint, ...]:
        """The biggest movers of 24 hours among coins and tokens, up or down."""
        now = self._clock.now()
        points = [
            self._point(asset, now)
            for asset in simulated_assets().values()
            if asset.asset_class in _TRENDING and asset.walks_as == asset.symbol
        ]
        points.sort(key=lambda point: (-abs(point.change_24h_percent), point.symbol))
        return tuple(points[: max(0, limit)])

    async def fear_greed(self) -> FearGreed:
        """50, moved by how the largest coins went over a day and over a week."""
        now = self._clock.now()
        value = Decimal(50)
        for symbol in _MOOD_ASSETS:
            asset = _known(symbol)
            price = self._price(asset, _minute(now))
            day = multiply(_DAY_WEIGHT, self._change(asset, price, now, _DAY_MINUTES))
            week = multiply(_WEEK_WEIGHT, self._change(asset, price, now, 7 * _DAY_MINUTES))
            value = add(value, divide(add(day, week), Decimal(len(_MOOD_ASSETS))))
        whole = min(100, max(0, int(quantize(value, _ONE, Rounding.DOWN))))
        mood = next(name for below, name in _MOODS if whole < below)
        return FearGreed(value=whole, classification=mood, as_of=now, source=SOURCE)

    async def search(self, query: str, limit: int) -> tuple[TokenListing, ...]:
        """Best first: the exact ticker, names of the lexicon, then parts of ticker and name."""
        wanted = fold(query).strip().removeprefix("$")
        if not wanted:
            return ()
        named = parse(query).symbols
        ranked = sorted(
            (rank, asset.symbol)
            for asset in simulated_assets().values()
            if (rank := _rank(asset, wanted, named)) is not None
        )
        found = (simulated_assets()[symbol] for _, symbol in ranked[: max(0, limit)])
        return tuple(
            TokenListing(
                symbol=asset.symbol,
                name=asset.name,
                asset_class=asset.asset_class.value,
                source=SOURCE,
            )
            for asset in found
        )

    def _point(self, asset: SimulatedAsset, now: datetime) -> PricePoint:
        price = self._price(asset, _minute(now))
        return PricePoint(
            symbol=asset.symbol,
            name=asset.name,
            price=price,
            change_24h_percent=self._change(asset, price, now, _DAY_MINUTES),
            as_of=now,
            source=SOURCE,
        )

    def _change(
        self, asset: SimulatedAsset, price: Decimal, now: datetime, minutes: int
    ) -> Decimal:
        before = self._price(asset, _minute(now) - minutes)
        percent = multiply(subtract(divide(price, before), _ONE), _HUNDRED)
        return quantize(percent, _PERCENT_STEP, Rounding.DOWN)

    def _price(self, asset: SimulatedAsset, minute: int) -> Decimal:
        factor = add(_ONE, multiply(asset.swing, walk(self._seed, asset.walks_as, minute)))
        price = multiply(asset.reference, factor)
        step = min(_COARSEST_STEP, _ONE.scaleb(price.adjusted() + 1 - _DIGITS))
        return quantize(price, step, Rounding.DOWN)


@cache
def simulated_assets() -> Mapping[str, SimulatedAsset]:
    """All assets that have a simulated price, by ticker."""
    path = files("minara_tools") / "adapters" / "market_simulated_prices.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    found: dict[str, SimulatedAsset] = {}
    for asset_class, swing in _SWING.items():
        for symbol, (name, price) in raw[asset_class].items():
            found[symbol] = SimulatedAsset(
                symbol=symbol,
                name=name,
                asset_class=asset_class,
                reference=parse_amount(price),
                swing=swing,
                walks_as=symbol,
            )
    for symbol, (name, asset_class, leader) in raw["follows"].items():
        found[symbol] = SimulatedAsset(
            symbol=symbol,
            name=name,
            asset_class=AssetClass(asset_class),
            reference=found[leader].reference,
            swing=found[leader].swing,
            walks_as=leader,
        )
    return MappingProxyType(found)


def _known(symbol: str) -> SimulatedAsset:
    asset = simulated_assets().get(symbol)
    if asset is None:
        raise ToolFailed(
            DenialReason.PRICE_UNAVAILABLE, f"the simulated market has no price of {symbol[:40]!r}"
        )
    return asset


def _minute(now: datetime) -> int:
    return (now - _EPOCH) // _MINUTE


def _rank(asset: SimulatedAsset, wanted: str, named: tuple[str, ...]) -> int | None:
    symbol, name = asset.symbol.casefold(), asset.name.casefold()
    matches = (
        symbol == wanted,
        asset.symbol in named,
        symbol.startswith(wanted) or name.startswith(wanted),
        wanted in symbol or wanted in name,
    )
    return matches.index(True) if any(matches) else None
