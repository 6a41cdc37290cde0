"""What a provider signs of its thinking, so that nobody can change it on the way back."""

import base64
import hashlib
import hmac


class Signer:
    """Signs with one key; two servers with the same key read each other's signatures."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, text: str) -> str:
        """An opaque signature of exactly this text."""
        digest = hmac.digest(self._key, text.encode(), hashlib.sha256)
        return base64.b64encode(digest).decode("ascii")

    def is_of(self, signature: str, text: str) -> bool:
        return hmac.compare_digest(
            signature.encode("utf-8", "replace"), self.sign(text).encode("ascii")
        )

    def seal(self, text: str) -> str:
        """The text and its signature in one opaque string."""
        hidden = base64.b64encode(text.encode()).decode("ascii")
        return f"{hidden}.{self.sign(text)}"

    def is_sealed(self, sealed: str) -> bool:
        """Whether `seal` made it, and nobody changed it since."""
        hidden, _, signature = sealed.partition(".")
        try:
            text = base64.b64decode(hidden, validate=True).decode()
        except ValueError:
            return False
        return self.is_of(signature, text)
