"""Limits, recipients and tools as lines for people; whoever prints them makes them harmless."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from minara_core.errors import InvalidRequest

TITLES: Mapping[str, str] = MappingProxyType(
    {
        "max_move_usd": "most per move, in USD",
        "max_day_usd": "most in 24 hours, in USD",
        "max_day_moves": "moves in 24 hours",
        "max_new_recipient_usd": "most for a new recipient, in USD",
        "max_leverage": "leverage",
        "max_submits_a_minute": "moves sent in a minute",
    }
)


def describe_limits(record: dict[str, Any]) -> Iterator[str]:
    """One line per limit, then the raises that wait."""
    for one in cast("list[dict[str, Any]]", record["limits"]):
        name = str(one["name"])
        line = f"{name:<22} {one['value']['value']:>12}   {TITLES.get(name, '')}"
        yield line.rstrip()
    for one in cast("list[dict[str, Any]]", record["raises"]):
        since = str(one["effective_time"])[:19]
        yield f"{one['name']} will be {one['value']['value']} from {since}Z on"
    if not record["is_chosen"]:
        yield "these are the standard limits; `minara setup` chooses your own"


def describe_addresses(addresses: Iterable[dict[str, Any]]) -> Iterator[str]:
    """One line per recipient, with the address in full."""
    for one in addresses:
        memo = f" memo {one['memo']}" if one["memo"] else ""
        usable = "" if one["is_used"] else f"  (usable from {str(one['usable_time'])[:19]}Z on)"
        yield f"{one['address_id']}  {one['name']}: {one['chain']} {one['address']}{memo}{usable}"


def describe_tools(tool_sets: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Each set, what it includes, and its tools; an empty one says why."""
    for one in tool_sets:
        includes = f" (with {', '.join(one['includes'])})" if one["includes"] else ""
        yield f"{one['name']}{includes}"
        if one["empty_reason"]:
            yield f"  no tools: {one['empty_reason']}"
        for tool in cast("list[dict[str, Any]]", one["tools"]):
            tier = str(tool["permission_tier"]).removeprefix("PERMISSION_TIER_")
            moves = ", moves money" if tool["is_fund_moving"] else ""
            needs = f"; unavailable: {tool['needs']}" if tool["needs"] else ""
            yield f"  {tool['name']}: {tier}{moves}{needs}"


def read_changes(words: Iterable[str]) -> dict[str, str]:
    """`name=value` words as values by name. Raises InvalidRequest for any other word."""
    changes: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise InvalidRequest(
                f"{word[:40]!r} is not NAME=VALUE, such as max_move_usd=8000",
                metadata={"field": "values"},
            )
        changes[name] = value
    return changes
