"""Pictures: their kind and size by their bytes, and which of them a model can be shown."""

from __future__ import annotations

from dataclasses import dataclass

from kernel import Image

LARGEST = 3_750_000
"""Bytes of a picture that is shown: providers take 5 MB of base64."""
HEAD = 300_000
"""Bytes that show what a picture is: its size may stand behind what a camera has written."""
WIDEST = 8_000
"""Pixels of a side that providers take."""


@dataclass(frozen=True)
class Kind:
    """What a picture is: its MIME type, and its width and height in pixels."""

    mime: str
    width: int
    height: int

    def line(self, size: int) -> str:
        """What a text says of a picture of so many bytes."""
        return f"[image: {self.mime}, {self.width}×{self.height} pixels, {size:,} bytes]"


def kind_of(data: bytes) -> Kind | None:
    """The kind of a picture by its bytes; None for what is no PNG, JPEG, GIF or WebP, or has no size."""
    try:
        found = _png(data) or _gif(data) or _webp(data) or _jpeg(data)
    except IndexError:
        return None
    return found if found and found.width and found.height else None


def shown(data: bytes, size: int = 0) -> tuple[str, tuple[Image, ...]] | None:
    """The line of a picture, and the picture itself if a model can be shown it; None for other bytes.

    `size` is that of the whole picture, where `data` is only its beginning.
    """
    size = size or len(data)
    kind = kind_of(data)
    if kind is None:
        return None
    line = kind.line(size)
    if size > LARGEST:
        return f"{line}\n[it is not shown: it has more than {LARGEST / 1_000_000:g} MB; make it smaller]", ()
    if max(kind.width, kind.height) > WIDEST:
        return f"{line}\n[it is not shown: it has more than {WIDEST:,} pixels on a side; make it smaller]", ()
    return line, (Image(data, kind.mime),)


def _number(data: bytes, at: int, size: int, order: str = "big") -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "big" if order == "big" else "little")


def _png(data: bytes) -> Kind | None:
    if not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return None
    return Kind("image/png", _number(data, 16, 4), _number(data, 20, 4))


def _gif(data: bytes) -> Kind | None:
    if not data.startswith((b"GIF87a", b"GIF89a")):
        return None
    return Kind("image/gif", _number(data, 6, 2, "little"), _number(data, 8, 2, "little"))


def _webp(data: bytes) -> Kind | None:
    if not data.startswith(b"RIFF") or data[8:12] != b"WEBP":
        return None
    form = data[12:16]
    if form == b"VP8X":
        return Kind("image/webp", _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1)
    if form == b"VP8L":
        bits = _number(data, 21, 4, "little")
        return Kind("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if form == b"VP8 ":
        return Kind(
            "image/webp", _number(data, 26, 2, "little") & 0x3FFF, _number(data, 28, 2, "little") & 0x3FFF
        )
    return None


_NO_SIZE = frozenset({0xC4, 0xC8, 0xCC})
"""Markers of JPEG between those of frames."""


def _jpeg(data: bytes) -> Kind | None:
    if not data.startswith(b"\xff\xd8\xff"):
        return None
    at = 2
    while True:
        while _number(data, at, 1) != 0xFF:
            at += 1
        while _number(data, at, 1) == 0xFF:
            at += 1
        marker = data[at]
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            return Kind("image/jpeg", _number(data, at + 6, 2), _number(data, at + 4, 2))
        at += 1 if marker == 0x01 or 0xD0 <= marker <= 0xD8 else 1 + max(_number(data, at + 1, 2), 2)
