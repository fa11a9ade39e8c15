"""Signatures of webhooks, as Standard Webhooks 1.0 defines them.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from headrace.errors import InvalidSecret

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64
"""Bytes of a key."""


def parse_key(secret: str) -> bytes:
    """Return the key that a secret stands for. Raise InvalidSecret, without the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not secret.startswith(_PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise InvalidSecret(
            f"The secret of a webhook is {_PREFIX} and {_SHORTEST} to {_LONGEST} bytes in base64.",
            hint="Make one: echo whsec_$(head -c 32 /dev/urandom | base64)",
        )
    return key


def sign(key: bytes, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message that is sent at a time."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{digest}",
    }
