"""The digest that names a capture file's content."""

from __future__ import annotations

from collections.abc import Sequence
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


def parts_digest(parts: Sequence[Path]) -> str:
    """Digest of one file, or of the names and digests of the files that are one together."""
    if len(parts) == 1:
        return file_digest(parts[0])
    lines = sorted(f"{file_digest(part)} {part.name}\n" for part in parts)
    return blake2b("".join(lines).encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()
