"""The chains by which assets leave the paper venue."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from minara_core.money import parse_amount
from minara_tools.adapters.venue_paper_listings import asset_step
from minara_tools.domain.venue_terms import AssetNetwork


@cache
def paper_networks() -> Mapping[tuple[str, str], AssetNetwork]:
    """All networks by asset and chain."""
    path = files("minara_tools") / "adapters" / "venue_paper_networks.toml"
    raw = tomllib.loads(path.read_text(encoding="utf-8"))
    networks = [
        AssetNetwork(
            asset=asset,
            chain=chain,
            address_format=raw["formats"][chain],
            needs_memo=chain in raw["memo"]["chains"],
            fee=parse_amount(fee),
            min_amount=parse_amount(least),
            amount_increment=asset_step(asset),
        )
        for asset, chains in raw["assets"].items()
        for chain, (fee, least) in chains.items()
    ]
    return MappingProxyType({(one.asset, one.chain): one for one in networks})
