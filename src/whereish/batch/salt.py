"""The salt of an output folder: digests of personal data in it cannot be confirmed without it.

A digest of visited points, or of places and a prior, tells nobody what they are. But who guesses
them can compute the digest, and see that the guess is right. So the digests in the journal and in
the summary are keyed (HMAC-SHA256) with random bytes, made once for each output and kept beside the
journal in a file of its owner: the same person has another digest in every output, and a second run
in the same output still knows what is done.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

from whereish.batch.output import Output

_FILE, _BYTES = ".batch/salt", 32
_KEYED = "hmac-sha256:"  # how a keyed digest begins; those of earlier versions are bare


@dataclass(frozen=True)
class Salt:
    """The key of the digests of one output; repr does not show it."""

    key: bytes = field(repr=False)

    @classmethod
    def of(cls, output: Output) -> Salt:
        """Return the salt of an output; it is made at the first run.

        If it was lost, a new one is made, and everybody's mechanism is built again.
        """
        found = output.read(_FILE)
        if found is None or len(found) != _BYTES:
            found = secrets.token_bytes(_BYTES)
            output.write(_FILE, found)
        return cls(found)

    def digest(self, user: str, plain: str) -> str:
        """Return the keyed form of the digest of what somebody's mechanism is made from."""
        return _KEYED + self._hmac("profile", user, plain)

    def places_id(self, plain: str) -> str:
        """Return the keyed form of the short name of a set of places."""
        return self._hmac("places", "", plain)[:12]

    def _hmac(self, *parts: str) -> str:
        # Neither a kind nor a digest holds a null; a user's name is between the two.
        text = "\0".join(parts).encode(errors="surrogatepass")
        return hmac.new(self.key, text, hashlib.sha256).hexdigest()


def is_keyed(digest: object) -> bool:
    """Whether a digest of a journal was made with a salt, or there is none."""
    return not isinstance(digest, str) or digest.startswith(_KEYED)
