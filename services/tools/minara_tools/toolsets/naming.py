"""What a symbol argument of a model means."""

from minara_core.lexicon import parse
from minara_core.lexicon_tables import asset_table
from minara_core.reasons import DenialReason
from minara_tools.domain.outcomes import ToolFailed


def ticker_named(text: str) -> str:
    """The one ticker that `text` names: a ticker, a cashtag, or a name in any of our languages.

    What the lexicon does not know is taken as a ticker. Raises ToolFailed (TOKEN_AMBIGUOUS) when
    several assets are named.
    """
    plain = text.strip().removeprefix("$").upper()
    if plain in asset_table().classes:
        return plain
    named = parse(text).symbols
    if len(named) > 1:
        raise ToolFailed(
            DenialReason.TOKEN_AMBIGUOUS,
            f"{text[:40]!r} names several assets ({', '.join(named[:6])}); pass one ticker",
        )
    return named[0] if named else plain
