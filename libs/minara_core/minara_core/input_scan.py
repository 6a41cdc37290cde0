"""The scan of a person's message, before it is signed and before it is used (turn.md §1)."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from minara_core.errors import InvalidRequest, TooLarge
from minara_core.lexicon import language_of
from minara_core.lexicon_terms import Language
from minara_core.reasons import ErrorReason
from minara_core.secret_shapes import SecretKind, find_secrets

MAX_MESSAGE_BYTES = 32 * 1024
"""The largest message, in bytes of UTF-8 after cleaning."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_LONE = re.compile(r"[\ud800-\udfff]")
_INVISIBLE = frozenset({"Cf", "Cc", "Zs", "Zl", "Zp", "Mn"})
_NOTICES: Mapping[Language, Mapping[SecretKind, str]] = MappingProxyType(
    {
        Language.EN: {
            SecretKind.PRIVATE_KEY: "A private key was removed from your message and was not "
            "sent on. Whoever may have seen it can move your funds: move them to a new wallet.",
            SecretKind.SEED_PHRASE: "A seed phrase was removed from your message and was not "
            "sent on. Whoever may have seen it can move your funds: move them to a new wallet.",
            SecretKind.API_KEY: "An API key was removed from your message and was not sent on. "
            "Revoke it where it was made.",
        },
        Language.ZH: {
            SecretKind.PRIVATE_KEY: "已從訊息中移除一個私鑰，未再轉送。看過它的人可以動用您的資金："
            "請把資金移到新的錢包。",
            SecretKind.SEED_PHRASE: "已從訊息中移除一組助記詞，未再轉送。看過它的人可以動用您的"
            "資金：請把資金移到新的錢包。",
            SecretKind.API_KEY: "已從訊息中移除一個 API 金鑰，未再轉送。請到發行處撤銷它。",
        },
        Language.KO: {
            SecretKind.PRIVATE_KEY: "메시지에서 개인 키를 지웠고 어디에도 전달하지 않았습니다. "
            "본 사람은 자금을 옮길 수 있으니 새 지갑으로 옮기세요.",
            SecretKind.SEED_PHRASE: "메시지에서 시드 구문을 지웠고 어디에도 전달하지 않았습니다. "
            "본 사람은 자금을 옮길 수 있으니 새 지갑으로 옮기세요.",
            SecretKind.API_KEY: "메시지에서 API 키를 지웠고 어디에도 전달하지 않았습니다. "
            "발급한 곳에서 폐기하세요.",
        },
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The text that may travel on, and one sentence for the person per kind of secret removed."""

    text: str
    notices: tuple[str, ...] = ()


def _cleaned(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub("", text)
    text = _PAIR.sub(
        lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), text
    )
    return _LONE.sub("\ufffd", text)


def _check_size(text: str) -> None:
    if all(c.isspace() or unicodedata.category(c) in _INVISIBLE for c in text):
        raise InvalidRequest("the message is empty", reason=ErrorReason.MESSAGE_EMPTY)
    size = len(text.encode())
    if size > MAX_MESSAGE_BYTES:
        raise TooLarge(
            f"the message has {size} bytes, at most {MAX_MESSAGE_BYTES} are taken; "
            "upload long text as a file",
            reason=ErrorReason.MESSAGE_TOO_LARGE,
            metadata={"size": str(size), "limit": str(MAX_MESSAGE_BYTES)},
        )


def _redacted(text: str) -> tuple[str, tuple[SecretKind, ...]]:
    kinds: list[SecretKind] = []
    # A removed secret may bring a label next to another one; each round shortens the text.
    while secrets := find_secrets(text):
        parts: list[str] = []
        reached = 0
        for secret in secrets:
            parts += (text[reached : secret.start], f"[redacted: {secret.kind}]")
            reached = secret.end
            kinds.append(secret.kind)
        text = "".join((*parts, text[reached:]))
    return text, tuple(dict.fromkeys(kinds))


def scan(text: str) -> ScanResult:
    """The message without control characters, broken surrogates and secrets.

    Scanning a scanned text changes nothing. Raises InvalidRequest (`MESSAGE_EMPTY`) when nothing
    is left, TooLarge (`MESSAGE_TOO_LARGE`) above MAX_MESSAGE_BYTES.
    """
    cleaned = _cleaned(text)
    _check_size(cleaned)
    redacted, kinds = _redacted(cleaned)
    notices = _NOTICES[language_of(redacted)]
    return ScanResult(text=redacted, notices=tuple(notices[kind] for kind in kinds))


def would_change(text: str) -> bool:
    """Whether `scan` would change the text; raises as `scan` does."""
    return scan(text).text != text
