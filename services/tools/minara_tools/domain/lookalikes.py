"""Address poisoning: a recipient that is not known but was made to look like one that is."""

from collections.abc import Iterable

from minara_tools.domain.addresses import AddressEntry

SHARED_ENDS = 4
MOST_EDITS = 2
_PREFIXES = ("0x", "bc1q", "bc1p")
"""What all addresses of a kind begin with, and what says nothing about one."""


def known_entry(
    entries: Iterable[AddressEntry], chain: str, address: str, memo: str
) -> AddressEntry | None:
    """The entry of this very recipient: behind another memo of one address stands another one."""
    wanted = spelled(address)
    for entry in entries:
        if (entry.chain, entry.memo, spelled(entry.address)) == (chain, memo, wanted):
            return entry
    return None


def lookalike_of(address: str, known: Iterable[str]) -> str | None:
    """The first known address that this one, which is none of them, resembles: the first and last
    four characters are the same, or it is within two edits. Case plays no part."""
    wanted = spelled(address)
    spellings = {one: spelled(one) for one in known}
    if wanted in spellings.values():
        return None
    for one, spelling in spellings.items():
        if _resembles(wanted, spelling):
            return one
    return None


def spelled(address: str) -> str:
    """One spelling of equal addresses. Base58 tells by case, hexadecimal and bech32 do not."""
    return address.lower() if address.lower().startswith(("0x", "bc1")) else address


def _resembles(one: str, other: str) -> bool:
    left, right = _telling(one), _telling(other)
    if left[:SHARED_ENDS] == right[:SHARED_ENDS] and left[-SHARED_ENDS:] == right[-SHARED_ENDS:]:
        return True
    return _are_near(left, right)


def _telling(address: str) -> str:
    folded = address.lower()
    for prefix in _PREFIXES:
        folded = folded.removeprefix(prefix)
    return folded


def _are_near(one: str, other: str) -> bool:
    """Whether at most two characters were put in, left out or changed."""
    if abs(len(one) - len(other)) > MOST_EDITS:
        return False
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        above, row[0] = row[0], i
        for j, right in enumerate(other, start=1):
            change = above + (left != right)
            above = row[j]
            row[j] = min(row[j] + 1, row[j - 1] + 1, change)
        if min(row) > MOST_EDITS:
            return False
    return row[-1] <= MOST_EDITS
