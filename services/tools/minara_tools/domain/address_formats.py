"""Whether a text is an address of a network's format: checksums and all, nothing is looked up."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import base58
import bech32
from Crypto.Hash import keccak

EVM = "evm"
BITCOIN = "bitcoin"
SOLANA = "solana"
TRON = "tron"

_LONGEST = 90
_HEX = frozenset("0123456789abcdefABCDEF")
_BECH32 = 1
_BECH32M = 0x2BC830A3
_BITCOIN_VERSIONS = frozenset({0x00, 0x05})
_TRON_VERSION = 0x41


def is_address(address_format: str, text: str) -> bool:
    """Whether `text` is an address of this format; never, for a format nobody knows."""
    check = _CHECKS.get(address_format)
    return check is not None and len(text) <= _LONGEST and text.isascii() and check(text)


def formats_of(text: str) -> tuple[str, ...]:
    """The formats of which `text` is an address."""
    return tuple(name for name in _CHECKS if is_address(name, text))


def _is_evm(text: str) -> bool:
    digits = text[2:]
    if not text.startswith("0x") or len(digits) != 40 or not _HEX.issuperset(digits):
        return False
    if digits in {digits.lower(), digits.upper()}:
        return True
    return digits == _with_checksum(digits.lower())


def _with_checksum(digits: str) -> str:
    """EIP-55: a letter is a capital where the digest of the small letters has a digit over 7."""
    digest = keccak.new(digest_bits=256, data=digits.encode("ascii")).hexdigest()
    return "".join(
        digit.upper() if int(nibble, 16) > 7 else digit
        for digit, nibble in zip(digits, digest, strict=False)
    )


def _is_bitcoin(text: str) -> bool:
    if text.lower().startswith("bc1"):
        return _is_segwit(text)
    decoded = _base58check(text)
    return decoded is not None and len(decoded) == 21 and decoded[0] in _BITCOIN_VERSIONS


def _is_segwit(text: str) -> bool:
    """BIP 173 for witness version 0, BIP 350 (another constant) for the later ones."""
    if text not in {text.lower(), text.upper()}:
        return False
    prefix, _, rest = text.lower().rpartition("1")
    if prefix != "bc" or len(rest) < 8 or any(c not in bech32.CHARSET for c in rest):
        return False
    values = [bech32.CHARSET.index(c) for c in rest]
    version, program = values[0], bech32.convertbits(values[1:-6], 5, 8, False)
    if program is None or version > 16 or not 2 <= len(program) <= 40:
        return False
    if version == 0 and len(program) not in {20, 32}:
        return False
    checksum = bech32.bech32_polymod(bech32.bech32_hrp_expand(prefix) + values)
    return checksum == (_BECH32 if version == 0 else _BECH32M)


def _is_solana(text: str) -> bool:
    try:
        return len(base58.b58decode(text)) == 32
    except ValueError:
        return False


def _is_tron(text: str) -> bool:
    decoded = _base58check(text)
    return decoded is not None and len(decoded) == 21 and decoded[0] == _TRON_VERSION


def _base58check(text: str) -> bytes | None:
    try:
        return base58.b58decode_check(text)
    except ValueError:
        return None


_CHECKS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {EVM: _is_evm, BITCOIN: _is_bitcoin, SOLANA: _is_solana, TRON: _is_tron}
)
