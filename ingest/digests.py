"""The digest that names a capture file's content."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path


def file_digest(path: Path) -> str:
    """BLAKE2b-128 of a file's bytes, hexadecimal; no more than its size says, since some of /proc never ends."""
    digest, left = blake2b(digest_size=16), path.stat().st_size
    if left:
        with path.open("rb") as file:
            while left > 0 and (block := file.read(min(1 << 20, left))):
                digest.update(block)
                left -= len(block)
    return digest.hexdigest()
