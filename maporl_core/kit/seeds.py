"""Seeds from names: the same in every process and on every machine, independent of each other."""

from __future__ import annotations

import hashlib


def stable_seed(*parts: object) -> int:
    """A 63-bit seed from any parts, e.g. (run seed, "rollout", step, problem, turn, agent)."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1
