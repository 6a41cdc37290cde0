"""What secrets look like in a message: private keys, seed phrases, API keys."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class SecretKind(StrEnum):
    PRIVATE_KEY = "private key"
    SEED_PHRASE = "seed phrase"
    API_KEY = "API key"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSecret:
    kind: SecretKind
    start: int
    end: int


_BASE58 = "1-9A-HJ-NP-Za-km-z"
_PEM = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*\Z)",
    re.DOTALL,
)
_KEY_LABEL = re.compile(
    r"(?<!redacted: )(?:private[ _-]?key|priv(?:ate)?[ _-]?key|secret[ _-]?key|signing[ _-]?key"
    r"|keypair|wif|私鑰|私钥|密鑰|密钥|개인\s?키|비밀\s?키|프라이빗\s?키)",
    re.IGNORECASE,
)
_RAW_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:0[xX])?[0-9a-fA-F]{64}"
    rf"|[5KL][{_BASE58}]{{50,51}}|[{_BASE58}]{{86,88}})(?![A-Za-z0-9])"
)
_EXTENDED_KEY = re.compile(rf"(?<![A-Za-z0-9])[xyz]prv[{_BASE58}]{{100,112}}(?![A-Za-z0-9])")
_API_KEY = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"sk-[A-Za-z0-9_-]{20,400}"
    r"|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,200}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{16}"
    r"|gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255}"
    r"|xox[a-z]-[A-Za-z0-9-]{20,255}"
    r"|AIza[A-Za-z0-9_-]{35}"
    r"|xai-[A-Za-z0-9]{40,200}"
    r"|eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{16,2000}"
    r")(?![A-Za-z0-9])"
)
_SEED_LABEL = re.compile(
    r"(?<!redacted: )(?:seed(?:[ _-]?(?:phrase|words?))?|mnemonic(?:s| phrase| words?)?"
    r"|recovery (?:phrase|words?)|backup phrase|secret (?:recovery )?phrase"
    r"|助記詞|助记词|種子|种子|註記詞|시드\s?(?:구문|문구|단어)?|니모닉|복구\s?(?:구문|문구|단어))",
    re.IGNORECASE,
)
_SEED_GAP = re.compile(r"[ \t]*(?:is|are|was|是|為|为|는|은)?[ \t]*[:=：\-–>]*[\s\"'“「(]*")
_SEED_WORD = re.compile(r"(?:[0-9]{1,2}[.)]\s?)?([a-z]{3,8})(?![A-Za-z0-9])")
_SEED_BREAK = re.compile(r"[ \t\n,]{1,4}")
_SEED_LENGTHS = (24, 21, 18, 15, 12)
_LABEL_REACH = 60
# Everyday words that are on no list of seed words; one of them makes the text a sentence.
_NO_SEED_WORDS = frozenset(
    [
        "and", "are", "been", "bitcoin", "btc", "buying", "could", "did", "does", "ether",
        "ethereum", "for", "from", "had", "has", "here", "him", "his", "how", "its", "let", "mine",
        "not", "our", "prices", "should", "than", "the", "them", "their", "these", "trading",
        "was", "were", "which", "who", "why", "with", "would", "your",
    ]
)  # fmt: skip


def _seed_run(text: str, position: int) -> tuple[int, ...]:
    """The ends of the words that could be seed words, from `position` on."""
    ends: list[int] = []
    while len(ends) < _SEED_LENGTHS[0]:
        word = _SEED_WORD.match(text, position)
        if word is None or word.group(1) in _NO_SEED_WORDS:
            break
        ends.append(word.end())
        gap = _SEED_BREAK.match(text, word.end())
        if gap is None:
            break
        position = gap.end()
    return tuple(ends)


def _labelled_seeds(text: str) -> Iterator[FoundSecret]:
    for label in _SEED_LABEL.finditer(text):
        gap = _SEED_GAP.match(text, label.end())
        start = gap.end() if gap else label.end()
        ends = _seed_run(text, start)
        for length in _SEED_LENGTHS:
            if len(ends) >= length:
                yield FoundSecret(kind=SecretKind.SEED_PHRASE, start=start, end=ends[length - 1])
                break


def _lone_seed(text: str) -> Iterator[FoundSecret]:
    bare = text.strip()
    start = text.index(bare) if bare else 0
    ends = _seed_run(text, start)
    if len(ends) in _SEED_LENGTHS and ends[-1] == start + len(bare):
        yield FoundSecret(kind=SecretKind.SEED_PHRASE, start=start, end=ends[-1])


def _raw_keys(text: str) -> Iterator[FoundSecret]:
    """Hex and base58 keys look like transaction ids, so they need a label or to stand alone."""
    bare = text.strip(" \t\n\"'`")
    for match in _RAW_KEY.finditer(text):
        before = text[max(0, match.start() - _LABEL_REACH) : match.start()]
        if match.group() == bare or _KEY_LABEL.search(before):
            yield _found(SecretKind.PRIVATE_KEY, match)


def _found(kind: SecretKind, match: re.Match[str]) -> FoundSecret:
    return FoundSecret(kind=kind, start=match.start(), end=match.end())


def find_secrets(text: str) -> tuple[FoundSecret, ...]:
    """Secrets of the text in order, not overlapping; each is longer than its redaction."""
    found = [
        *(_found(SecretKind.PRIVATE_KEY, match) for match in _PEM.finditer(text)),
        *(_found(SecretKind.PRIVATE_KEY, match) for match in _EXTENDED_KEY.finditer(text)),
        *_raw_keys(text),
        *(_found(SecretKind.API_KEY, match) for match in _API_KEY.finditer(text)),
        *(list(_labelled_seeds(text)) or _lone_seed(text)),
    ]
    kept: list[FoundSecret] = []
    for secret in sorted(found, key=lambda one: (one.start, -one.end)):
        if not kept or secret.start >= kept[-1].end:
            kept.append(secret)
    return tuple(kept)
