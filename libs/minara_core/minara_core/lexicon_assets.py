"""Finding assets in a message: tickers, names, cashtags, contract addresses by shape."""

import re
from collections.abc import Sequence

from minara_core.lexicon_tables import WORD, AssetName, AssetTable, asset_table
from minara_core.lexicon_terms import AssetMention
from minara_core.taxonomy import AssetClass

_BASE58 = "1-9A-HJ-NP-Za-km-z"
_ADDRESS = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<evm>0[xX][0-9a-fA-F]{40})"
    rf"|(?P<tron>T[{_BASE58}]{{33}})"
    rf"|(?P<bitcoin>bc1[ac-hj-np-z02-9]{{11,71}}|[13][{_BASE58}]{{25,34}})"
    rf"|(?P<solana>[{_BASE58}]{{32,44}})"
    r")(?![A-Za-z0-9])"
)
_HANGUL = re.compile(r"[가-힣]")
_MANY_WORDS = 4


def _addresses(plain: str) -> list[AssetMention]:
    return [
        AssetMention(
            symbol=match.group(),
            asset_class=AssetClass.CRYPTO_ALT,
            start=match.start(),
            end=match.end(),
            chain=match.lastgroup or "",
        )
        for match in _ADDRESS.finditer(plain)
        if match.lastgroup == "evm" or _is_mixed(match.group())
    ]


def _is_mixed(text: str) -> bool:
    return any(c.isdigit() for c in text) and any(c.isalpha() for c in text)


def _is_shouting(plain: str) -> bool:
    """Upper case says nothing in a text that is all upper case."""
    words = re.findall(r"[A-Za-z]{2,}", plain)
    return len(words) >= _MANY_WORDS and all(word.isupper() for word in words)


def _written_as_ticker(plain: str, start: int, end: int, *, is_shouting: bool) -> bool:
    if start > 0 and plain[start - 1] == "$":
        return True
    return plain[start:end].isupper() and not is_shouting


def _is_border(folded: str, position: int) -> bool:
    return position >= len(folded) or not (
        folded[position].isascii() and (folded[position].isalnum() or folded[position] == "_")
    )


def _spaced(plain: str, folded: str, table: AssetTable) -> list[AssetMention]:
    found: list[AssetMention] = []
    is_shouting = _is_shouting(plain)
    reached = 0
    for word in WORD.finditer(folded):
        if word.start() < reached:
            continue
        start, text = word.start(), word.group()
        if text not in table.by_word:
            text = text.lstrip("0123456789")
            start = word.end() - len(text)
        for name in table.by_word.get(text, ()):
            end = start + len(name.text)
            if not folded.startswith(name.text, start) or not _is_border(folded, end):
                continue
            if name.needs_case and not _written_as_ticker(
                plain, start, end, is_shouting=is_shouting
            ):
                continue
            found.append(_mention(name, start, end))
            reached = end
            break
    return found


def _unspaced(folded: str, table: AssetTable) -> list[AssetMention]:
    found: list[AssetMention] = []
    reached = 0
    for start, character in enumerate(folded):
        if start < reached or character not in table.by_character:
            continue
        if _HANGUL.match(character) and start > 0 and _HANGUL.match(folded[start - 1]):
            continue
        for name in table.by_character[character]:
            if folded.startswith(name.text, start):
                reached = start + len(name.text)
                found.append(_mention(name, start, reached))
                break
    return found


def _mention(name: AssetName, start: int, end: int) -> AssetMention:
    return AssetMention(
        symbol=name.symbol,
        asset_class=name.asset_class,
        start=start,
        end=end,
        is_ambiguous=name.is_ambiguous,
    )


def blanked(text: str, mentions: Sequence[AssetMention]) -> str:
    """`text` with the mentions overwritten by spaces, so that nothing else is found in them."""
    parts: list[str] = []
    reached = 0
    for mention in mentions:
        parts += (text[reached : mention.start], " " * (mention.end - mention.start))
        reached = mention.end
    return "".join((*parts, text[reached:]))


def find_assets(plain: str, folded: str) -> tuple[AssetMention, ...]:
    """Every asset of the message in order. `folded` is `plain` case-folded, index by index."""
    table = asset_table()
    found = _addresses(plain)
    folded = blanked(folded, found)
    found += _spaced(plain, folded, table)
    if not folded.isascii():
        found += _unspaced(folded, table)
    return tuple(sorted(found, key=lambda mention: mention.start))
