"""What a preview warns of: codes with stable names, for which the gateway has the words."""

from enum import StrEnum


class WarningCode(StrEnum):
    """A warning keeps nobody from confirming. Its text in a preview is the code, then a colon and a
    detail where `about` gave one."""

    STABLECOIN_OFF_PEG = "STABLECOIN_OFF_PEG"
    TOKEN_UNVERIFIED = "TOKEN_UNVERIFIED"  # noqa: S105 - a crypto token
    TOKEN_UNCLASSIFIED = "TOKEN_UNCLASSIFIED"  # noqa: S105 - a crypto token
    RECIPIENT_NEW = "RECIPIENT_NEW"
    CONCENTRATED = "CONCENTRATED"
    PENDING_TOO = "PENDING_TOO"
    PAIR_LOCKED = "PAIR_LOCKED"
    COOLDOWN_ACTIVE = "COOLDOWN_ACTIVE"
    PART_UNFILLED = "PART_UNFILLED"
    BOOK_TOO_THIN = "BOOK_TOO_THIN"
    LIMIT_WORSE_THAN_MARKET = "LIMIT_WORSE_THAN_MARKET"
    LIMIT_FAR_FROM_MARKET = "LIMIT_FAR_FROM_MARKET"
    PRICE_UNKNOWN = "PRICE_UNKNOWN"

    def about(self, detail: str) -> str:
        """The warning with what it is about."""
        return f"{self.value}:{detail}"
