"""Finance words in three languages: what a message says, without any model.

The router, the offline model, the intent check and typed confirmations all read messages through
`parse`. It never raises, whatever the text.
"""

import re
import unicodedata
from functools import lru_cache

from minara_core.lexicon_amounts import read_numbers
from minara_core.lexicon_assets import find_assets
from minara_core.lexicon_moves import find_moves
from minara_core.lexicon_tables import condition_table, decision_table, stage_table
from minara_core.lexicon_terms import Language, Parsed, TopicMention

_HANGUL = re.compile(r"[\u1100-\u11ff\u3130-\u318f\uac00-\ud7a3]")
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]")
_LATIN_WORD = re.compile(r"(?<![A-Za-z0-9$])[a-z]{2,}(?![A-Za-z0-9])")
_WORDS_PER_CHARACTER = 2
_TRAILING = " \t\n.!。!~"


_REMEMBERED_LENGTH = 2_000


def fold(text: str) -> str:
    """NFKC and case folding, so that full-width and upper-case forms compare equal."""
    return _casefold(unicodedata.normalize("NFKC", text))


def _casefold(plain: str) -> str:
    folded = plain.casefold()
    if len(folded) == len(plain):
        return folded
    # A few characters fold to several ("ß"); they stay, so that positions mean the same in both.
    return "".join(one if len(one.casefold()) != 1 else one.casefold() for one in plain)


def language_of(text: str) -> Language:
    """The language by script; Latin words win only where they clearly outnumber the others."""
    hangul, han = len(_HANGUL.findall(text)), len(_HAN.findall(text))
    if not hangul and not han:
        return Language.EN
    if len(_LATIN_WORD.findall(text)) > _WORDS_PER_CHARACTER * (hangul + han):
        return Language.EN
    return Language.KO if hangul >= han else Language.ZH


def _topics(folded: str) -> tuple[TopicMention, ...]:
    found = [
        TopicMention(topic=topic, start=match.start(), end=match.end())
        for topic, patterns in stage_table().topics.items()
        for language, pattern in patterns.items()
        if language is Language.EN or not folded.isascii()
        for match in pattern.finditer(folded)
    ]
    return tuple(sorted(found, key=lambda mention: (mention.start, mention.topic)))


def _conditions(folded: str) -> tuple[tuple[int, int], ...]:
    return tuple(
        sorted(
            match.span()
            for language, pattern in condition_table().items()
            if language is Language.EN or not folded.isascii()
            for match in pattern.finditer(folded)
        )
    )


def parse(text: str) -> Parsed:
    """What `text` names: assets, moves, amounts, prices, leverage and topics, with positions."""
    return _remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parsed(text)


@lru_cache(maxsize=256)
def _remembered(text: str) -> Parsed:
    # One message is read by the router, by several gates and again for each of its calls.
    return _parsed(text)


def _parsed(text: str) -> Parsed:
    plain = unicodedata.normalize("NFKC", text)
    folded = _casefold(plain)
    assets = find_assets(plain, folded)
    numbers = read_numbers(folded, assets)
    spans = [(m.start, m.end) for m in (*assets, *numbers.amounts, *numbers.prices)]
    return Parsed(
        language=language_of(text),
        plain=plain,
        folded=folded,
        assets=assets,
        moves=find_moves(folded, [*spans, *numbers.leverage_spans]),
        amounts=numbers.amounts,
        prices=numbers.prices,
        leverage=numbers.leverage,
        topic_mentions=_topics(folded),
        conditions=_conditions(folded),
        has_unread_number=numbers.has_unread,
    )


def typed_decision(text: str) -> str | None:
    """ "yes" or "no" if the *whole* message is on the fixed list of typed words, else None."""
    word = " ".join(fold(text).strip().rstrip(_TRAILING).split(" "))
    table = decision_table()
    if word in table.yes:
        return "yes"
    return "no" if word in table.no else None
