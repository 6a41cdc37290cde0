"""Takes secrets out of JSON before it is stored."""

import json
import re
from typing import cast

REDACTED = "[redacted]"

_SECRET_KEYS = frozenset(
    {
        "apikey", "apisecret", "secret", "secretkey", "clientsecret", "password", "passwd",
        "passphrase", "privatekey", "signingkey", "mnemonic", "seedphrase", "recoveryphrase",
        "accesstoken", "refreshtoken", "authtoken", "bearertoken", "apitoken", "sessiontoken",
        "authorization", "cookie", "credentials",
    }
)  # fmt: skip
_SECRET_ENDINGS = ("apikey", "secret", "password", "passphrase", "privatekey", "mnemonic")
# In this house a token is first of all an asset: a ticker or an address under that name stays.
_ASSET = re.compile(r"[^\s]{1,15}|0x[0-9a-fA-F]{40}|[1-9A-HJ-NP-Za-km-z]{32,44}")
_HASH_KEYS = re.compile(r"hash|tx|signature|operation|order|trace|sha256|root|id$")
_PATTERNS = (
    re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*KEY-----|\Z)"),
    re.compile(r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9-]{10,}"),
    re.compile(r"\bAKIA[0-9A-Z]{16}\b"),
    re.compile(r"\bAIza[0-9A-Za-z_-]{30,}"),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*"),
)
_PRIVATE_KEY = re.compile(r"\b(?:0x)?[0-9a-fA-F]{64}\b")


class _Number(str):
    """A JSON number as it was written: 12345678901234567890 and 1.10 stay what they are."""

    __slots__ = ()


class _Object(tuple[tuple[str, object], ...]):
    """A JSON object as it was written: a name that comes twice stays twice."""

    __slots__ = ()


def redact(json_text: str) -> str:
    """`json_text` with secrets replaced: values under telling names, and shapes of known keys.

    Without any, the very same text. What is no JSON is searched as plain text; what is nested too
    deep to be searched is replaced as a whole. 64 hexadecimal digits are taken for a private key,
    unless their name says that they are a hash or an id.
    """
    try:
        value: object = json.loads(
            json_text,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_Number,
            object_pairs_hook=_Object,
        )
        clean = _clean(value, key="")
        return json_text if clean == value else _written(clean)
    except ValueError:
        return _clean_text(json_text, key="")
    except RecursionError:
        return json.dumps(REDACTED)


def _clean(value: object, *, key: str) -> object:
    if _is_secret(key, value):
        return REDACTED
    if isinstance(value, _Object):
        return _Object((name, _clean(member, key=_plain(name))) for name, member in value)
    if isinstance(value, list):
        return [_clean(item, key=key) for item in cast("list[object]", value)]
    if isinstance(value, str) and not isinstance(value, _Number):
        return _clean_text(value, key=key)
    return value


def _is_secret(key: str, value: object) -> bool:
    if value is None or value == "" or isinstance(value, bool):
        return False
    if key == "token":
        return isinstance(value, str) and _ASSET.fullmatch(value) is None
    return key in _SECRET_KEYS or key.endswith(_SECRET_ENDINGS)


def _clean_text(text: str, *, key: str) -> str:
    for pattern in _PATTERNS:
        text = pattern.sub(REDACTED, text)
    return text if _HASH_KEYS.search(key) else _PRIVATE_KEY.sub(REDACTED, text)


def _plain(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _written(value: object) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, _Object):
        members = (f"{json.dumps(k, ensure_ascii=False)}:{_written(v)}" for k, v in value)
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(item) for item in cast("list[object]", value)) + "]"
    return json.dumps(value, ensure_ascii=False)
