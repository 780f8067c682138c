"""Pictures for tests: the least bytes of each kind that say what they are."""

from __future__ import annotations

import struct
import zlib


def png(width: int = 2, height: int = 3, extra: int = 0) -> bytes:
    """A whole PNG, with so many bytes of a comment."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + b"\x7f" * width for _ in range(height)) if width * height < 10_000 else b""
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"tEXt", b"x" * extra), chunk(b"IDAT", zlib.compress(rows))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IEND", b"")


def jpeg(width: int = 2, height: int = 3, extra: int = 0) -> bytes:
    """The head of a JPEG, with so many bytes of what a camera writes before its size."""
    camera = b"\xff\xe1" + struct.pack(">H", extra + 2) + b"x" * extra
    tables = b"\xff\xc4" + struct.pack(">H", 4) + b"\0\0"
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, height, width, 1) + b"\1\x11\0"
    return b"\xff\xd8" + camera + tables + frame + b"\xff\xd9"


def gif(width: int = 2, height: int = 3) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def webp(form: str = "VP8 ", width: int = 2, height: int = 3) -> bytes:
    data = {
        "VP8 ": b"\0\0\0\x9d\x01\x2a" + struct.pack("<HH", width, height),
        "VP8L": b"\x2f" + struct.pack("<I", (height - 1) << 14 | (width - 1)),
        "VP8X": b"\0\0\0\0" + struct.pack("<I", width - 1)[:3] + struct.pack("<I", height - 1)[:3],
    }[form]
    body = b"WEBP" + form.encode() + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body
