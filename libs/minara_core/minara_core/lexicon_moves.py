"""Finding the words that name a move, and how the speaker stands to it."""

import re
from collections.abc import Iterator, Sequence
from types import MappingProxyType

from minara_core.lexicon_tables import MoveTable, move_table
from minara_core.lexicon_terms import Direction, Language, MoveMention
from minara_core.spans import Spans

_QUOTED = re.compile(
    r"```.{0,4000}?```|`[^`\n]{1,400}`|\"[^\"\n]{1,400}\"|“[^”\n]{1,400}”|「[^」\n]{1,400}」"
    r"|『[^』\n]{1,400}』|(?<!\w)'[^'\n]{3,400}'(?!\w)|‘[^’\n]{3,400}’|《[^》\n]{1,100}》",
    re.DOTALL,
)
_HARD_BORDER = re.compile(r"[.!?;:,\n。；、()（）…—]|[！？：，]")
_SOFT_BORDER = MappingProxyType(
    {
        Language.EN: re.compile(r"(?<![a-z])(?:and|then|but|also|or|so)(?![a-z])|->|&"),
        Language.ZH: re.compile(r"然後|然后|接著|接着|順便|顺便|並且|并且|並|并"),
    }
)
_REACH = 120
_SPACE = re.compile(r"\s+")


def _scripts(folded: str) -> Iterator[Language]:
    if re.search("[a-z]", folded):
        yield Language.EN
    if re.search("[\u3400-\u9fff]", folded):
        yield Language.ZH
    if re.search("[\uac00-\ud7a3]", folded):
        yield Language.KO


def _without(folded: str, spans: Sequence[tuple[int, int]]) -> str:
    characters = list(folded)
    for start, end in spans:
        characters[start:end] = " " * (end - start)
    return "".join(characters)


def _is_all_opener(prefix: str, table: MoveTable) -> bool:
    patterns = (_SPACE, *table.openers.values())
    position = 0
    while position < len(prefix):
        ends = [match.end() for one in patterns if (match := one.match(prefix, position))]
        if max(ends, default=position) == position:
            return False
        position = max(ends)
    return True


def _last_end(pattern: re.Pattern[str], text: str) -> int:
    return max((match.end() for match in pattern.finditer(text)), default=-1)


class _Listener:
    """Judges the moves of one message; lives for one call of `find_moves`."""

    def __init__(self, folded: str, spans: Sequence[tuple[int, int]], table: MoveTable) -> None:
        self._folded = folded
        self._bare = _without(folded, spans)
        self._table = table
        self._quoted = Spans(match.span() for match in _QUOTED.finditer(folded))
        self._last: MoveMention | None = None

    def _is_request(self, language: Language, start: int, end: int, verb: str) -> bool:
        if language is Language.KO:
            return verb.startswith(self._table.korean_stems) or bool(
                self._table.korean_request.match(self._bare[end : end + 12].rstrip())
            )
        before = self._bare[max(0, start - _REACH) : start]
        if start > _REACH and not _HARD_BORDER.search(before):
            return False
        clause = before[max(_last_end(_HARD_BORDER, before), 0) :]
        soft = _last_end(_SOFT_BORDER[language], clause)
        last = self._last
        if soft >= 0 and last and last.start >= start - len(clause) and not last.is_negated:
            return last.is_request
        return _is_all_opener(clause[max(soft, 0) :], self._table)

    def judge(self, language: Language, match: re.Match[str]) -> MoveMention:
        start, end = match.span()
        before = self._folded[max(0, start - 64) : start]
        is_negated = self._table.negated_before.search(before) is not None or (
            language is Language.KO
            and self._table.negated_after.match(self._folded[end : end + 12]) is not None
        )
        is_quoted = self._quoted.covers(start)
        mention = MoveMention(
            direction=Direction(match.lastgroup or ""),
            start=start,
            end=end,
            is_negated=is_negated,
            is_quoted=is_quoted,
            is_request=not is_negated
            and not is_quoted
            and self._is_request(language, start, end, match.group()),
        )
        self._last = mention
        return mention


def find_moves(folded: str, spans: Sequence[tuple[int, int]]) -> tuple[MoveMention, ...]:
    """Every move the message names, in order. `spans` are its assets and numbers, which say
    nothing about the form of a clause."""
    table = move_table()
    listener = _Listener(folded, spans, table)
    found = [
        listener.judge(language, match)
        for language in _scripts(folded)
        for match in table.verbs[language].finditer(folded)
    ]
    return tuple(sorted(found, key=lambda move: move.start))
