"""Sentences from what tools read in a person's own books."""

from typing import Any, cast

from minara_llm.offline.fields import (
    Fields,
    amounts_of,
    as_of,
    is_nothing,
    listed,
    object_of,
    optional,
    paper,
    rows_of,
    text_of,
    where,
)
from minara_llm.offline.phrases import Phrases


def _known(phrases: Phrases, key: str, otherwise: str) -> str:
    """The phrase of this key, or the tool's own word where there is none."""
    return phrases.get(key, otherwise)


def _joined(fields: Fields, key: str) -> str:
    words = fields.get(key)
    if not isinstance(words, list):
        return ""
    return ", ".join(str(word)[:80] for word in cast("list[Any]", words))


def portfolio(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        value = optional(phrases, "value", value_usd=text_of(row, "value_usd"))
        return phrases["portfolio_line"].format(
            asset=text_of(row, "asset"),
            available=text_of(row, "available"),
            held=text_of(row, "held"),
            value=value or phrases["no_value"],
        )

    head = phrases["portfolio"].format(
        where=where(phrases, fields),
        account=text_of(fields, "account"),
        equity_usd=text_of(fields, "equity_usd"),
        as_of=as_of(phrases, fields),
        paper=paper(phrases, fields),
    )
    lines = listed(phrases, rows_of(fields, "balances"), line)
    return "\n".join([head, *(lines or [phrases["portfolio_empty"]])])


def total_balance(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        return phrases["total_line"].format(
            account=text_of(row, "account"),
            purpose=text_of(row, "purpose"),
            value_usd=text_of(row, "value_usd"),
        )

    head = phrases["total"].format(
        where=where(phrases, fields),
        total_usd=text_of(fields, "total_usd"),
        as_of=as_of(phrases, fields),
        paper=paper(phrases, fields),
    )
    unpriced = optional(phrases, "unpriced", assets=_joined(fields, "unpriced_assets"))
    lines = listed(phrases, rows_of(fields, "accounts"), line)
    return "\n".join([head, *lines, *([unpriced] if unpriced else [])])


def account(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        return phrases["account_line"].format(
            account=text_of(row, "account"),
            purpose=text_of(row, "purpose"),
            primary=phrases["primary"] if row.get("is_primary") is True else "",
        )

    by_asset = object_of(fields, "withdrawal_chains")
    chains = phrases["chain_break"].join(
        phrases["chain"].format(asset=asset[:80], chains=_joined(by_asset, asset))
        for asset in list(by_asset)[:20]
    )
    told = [
        paper(phrases, fields).strip(),
        phrases["accounts"].format(where=where(phrases, fields)),
        *listed(phrases, rows_of(fields, "accounts"), line),
        optional(phrases, "chains", chains=chains),
    ]
    return "\n".join(one for one in told if one)


def pnl(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        gain = optional(phrases, "unrealised", amount=text_of(row, "unrealised_usd"))
        return phrases["pnl_line"].format(
            asset=text_of(row, "asset"),
            quantity=text_of(row, "quantity_with_cost"),
            cost_usd=text_of(row, "cost_usd"),
            realised_usd=text_of(row, "realised_usd"),
            unrealised=gain or phrases["no_value"].lstrip(",， "),
        )

    head = phrases["pnl"].format(
        as_of=as_of(phrases, fields),
        realised_usd=text_of(fields, "realised_usd"),
        unrealised_usd=text_of(fields, "unrealised_usd"),
    )
    after = [
        optional(phrases, "fees", fees=amounts_of(fields, "fees")),
        optional(phrases, "basis", basis=text_of(fields, "basis", 400)),
        phrases["incomplete"] if fields.get("is_complete") is False else "",
    ]
    lines = listed(phrases, rows_of(fields, "assets"), line)
    told = [head, *(lines or [phrases["pnl_none"]]), *after]
    return "\n".join(one for one in told if one)


def orders(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        filled = text_of(row, "filled_quantity")
        return phrases["order_line"].format(
            side=_side(phrases, row),
            quantity=text_of(row, "quantity"),
            instrument=text_of(row, "instrument"),
            price=text_of(row, "limit_price"),
            filled="" if is_nothing(filled) else phrases["order_filled"].format(quantity=filled),
            id=text_of(row, "id"),
        )

    resting = rows_of(fields, "open_orders")
    head = phrases["orders" if resting else "orders_none"].format(
        where=where(phrases, fields),
        paper=paper(phrases, fields),
        count=text_of(fields, "open_order_count"),
    )
    moves = listed(phrases, rows_of(fields, "recent_moves"), lambda row: _move(phrases, row))
    latest = [phrases["moves"], *moves] if moves else []
    return "\n".join([head, *listed(phrases, resting, line), *latest])


def _move(phrases: Phrases, row: Fields) -> str:
    kind, state = text_of(row, "kind"), text_of(row, "state")
    end = text_of(row, "end")
    side = _side(phrases, row)
    return phrases["move_line"].format(
        time=text_of(row, "time"),
        what=side if kind == "trade" else _known(phrases, f"kind_{kind}", kind),
        quantity=text_of(row, "quantity"),
        instrument=text_of(row, "instrument"),
        state=_known(phrases, f"end_{end}", end)
        if end
        else _known(phrases, f"move_{state}", phrases["move_underway"]),
        id=text_of(row, "id"),
    )


def _side(phrases: Phrases, row: Fields) -> str:
    side = text_of(row, "side")
    return _known(phrases, f"side_{side}", side)


def fills(phrases: Phrases, fields: Fields) -> str:
    def line(row: Fields) -> str:
        return phrases["fill_line"].format(
            time=text_of(row, "time"),
            side=_side(phrases, row),
            quantity=text_of(row, "quantity"),
            instrument=text_of(row, "instrument"),
            price=text_of(row, "price"),
            fee=optional(phrases, "fee", fee=amounts_of(row, "fee")),
        )

    lines = listed(phrases, rows_of(fields, "fills"), line)
    return "\n".join([phrases["fills"], *lines]) if lines else phrases["fills_none"]


def limits(phrases: Phrases, fields: Fields) -> str:
    def name_of(name: str) -> str:
        return _known(phrases, f"limit_{name}", name[:80])

    held = object_of(fields, "limits")
    lines = [
        phrases["limit_line"].format(name=name_of(name), value=text_of(held, name)) for name in held
    ]
    raises = listed(
        phrases,
        rows_of(fields, "pending_raises"),
        lambda row: phrases["raise_line"].format(
            name=name_of(text_of(row, "limit")),
            value=text_of(row, "value"),
            time=text_of(row, "effective_time"),
        ),
    )
    head = phrases["limits_standard" if fields.get("is_chosen") is False else "limits"]
    return "\n".join([head, *lines, *raises, *_to_change(phrases, fields)])


def trading_state(phrases: Phrases, fields: Fields) -> str:
    state = text_of(fields, "state")
    key = f"trading_{state}" if f"trading_{state}" in phrases else "trading_other"
    told = phrases[key].format(
        state=state,
        since=optional(phrases, "since", time=text_of(fields, "since")),
        reason=optional(phrases, "reason", reason=text_of(fields, "reason", 200)),
    )
    everywhere = [phrases["everywhere"]] if fields.get("is_installation_wide") is True else []
    return "\n".join([told, *everywhere, *_to_change(phrases, fields)])


def _to_change(phrases: Phrases, fields: Fields) -> list[str]:
    told = optional(phrases, "yours_to_change", change=text_of(fields, "change", 200))
    return [told] if told else []
