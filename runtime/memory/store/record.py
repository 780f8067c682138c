"""Records as models, as rows of a store, and as JSON."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from kernel.document.redaction import redacted
from kernel.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float32]]
else:
    Vector = Any  # numpy is imported where vectors are used

FORMAT = 2
"""The format of stored records: `migration` brings earlier ones to it, later ones are refused.

2: facts are compared by their claims, so that what a later one changes is superseded by it.
"""
KINDS = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""A kind names a table and a folder."""
LONGEST_ID = 400
RESERVED = ("format", "kind")


class Record(BaseModel):
    """The base of all records. A subclass sets `KIND` and adds fields; `search` looks into `text`.

    `vectors` holds float32 rows by the name of the embedder that made them; see `pack` and `vector`.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")

    KIND: ClassVar[str] = ""

    id: str
    text: str = ""
    vectors: dict[str, bytes] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse an invalid kind and fields that the store uses itself."""
        super().__pydantic_init_subclass__(**kwargs)
        if not KINDS.fullmatch(cls.KIND):
            raise TypeError(f"{cls.__name__}.KIND is {cls.KIND!r}: use small letters, digits and hyphens")
        if taken := [name for name in RESERVED if name in cls.model_fields]:
            raise TypeError(f"{cls.__name__}: the store reserves the field {', '.join(taken)}")

    @field_validator("id")
    @classmethod
    def _an_id_is_short(cls, value: str) -> str:
        if not 0 < len(value) <= LONGEST_ID:
            raise ValueError(f"an id has 1 to {LONGEST_ID} characters, not {len(value)}")
        return value

    def vector(self, embedder: str) -> Vector | None:
        """The read-only vector of this embedder, or None."""
        import numpy as np

        raw = self.vectors.get(embedder)
        return None if raw is None else np.frombuffer(raw, "<f4")


R = TypeVar("R", bound=Record)


def pack(vector: Any) -> bytes:
    """A vector as it is stored: float32, little-endian."""
    import numpy as np

    return np.ascontiguousarray(vector, "<f4").ravel().tobytes()


def _is_vector(raw: bytes) -> bool:
    import numpy as np

    return bool(raw) and len(raw) % 4 == 0 and bool(np.isfinite(np.frombuffer(raw, "<f4")).all())


@dataclass(frozen=True)
class Hit:
    """A record that was found: the higher the score, the better."""

    id: str
    score: float


@dataclass(frozen=True)
class Fault:
    """Something in the store that cannot be used: where it is, and what is wrong with it."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True, slots=True)
class Row:
    """A record as every store sees it; `body` is JSON without kind and vectors."""

    kind: str
    id: str
    body: str
    said: str | None = field(default="", compare=False)  # its text; None: read it from the body
    vectors: Mapping[str, bytes] = field(default_factory=dict)
    format: int = field(default=FORMAT, compare=False)  # of the file or export that it was read from

    @property
    def text(self) -> str:
        """The text that `search` looks into."""
        return text_of(self.body) if self.said is None else self.said


def key(id: str) -> bytes:
    """An id as SQLite stores it: UTF-8, which sorts by code points."""
    return id.encode("utf-8", "surrogatepass")


def unkey(raw: Any) -> str:
    """The id of a key."""
    return raw.decode("utf-8", "surrogatepass") if isinstance(raw, bytes) else str(raw)


def parsed(body: str) -> dict[str, Any] | None:
    """The fields of a JSON body; None if it is broken, which `check` reports."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) else None


def text_of(body: str) -> str:
    """The text of a JSON body."""
    text = (parsed(body) or {}).get("text", "")
    return text if isinstance(text, str) else ""


def to_row(record: Record, redact: Callable[[str], str]) -> Row:
    """The row of a record, without secrets. Raises `UsageError` for vectors that cannot be compared."""
    for name, raw in record.vectors.items():
        if not _is_vector(raw):
            raise UsageError(
                f"{record.KIND} {record.id}: its vector of {name} is not finite numbers of float32"
            )
    try:
        body = record.model_dump_json(exclude={"vectors"})
    except ValueError:
        body = "\ufffd"
    if "\ufffd" in body:  # perhaps a lone surrogate, which is not valid UTF-8: JSON has an escape for it
        from pydantic_core import to_jsonable_python

        fields = record.model_dump(exclude={"vectors"})
        body = json.dumps(fields, default=lambda value: to_jsonable_python(value, bytes_mode="base64"))
    fields = json.loads(body)
    numbers = {name: fields[name] for name, value in record if isinstance(value, bytes)}  # base64 of no text
    if (clean := {**redacted(fields, redact), **numbers}) != fields:
        body = _dumped({**clean, "id": record.id}, separators=(",", ":"))
    return Row(record.KIND, record.id, body, clean["text"], dict(record.vectors))


def to_record(kind: type[R], row: Row) -> R:
    """The record of a row. Raises `ValueError` when its fields are not those of the model."""
    try:
        record = kind.model_validate_json(row.body)
    except ValidationError:
        if "\\ud" not in row.body.lower():
            raise
        record = kind.model_validate(json.loads(row.body))
    return record.model_copy(update={"vectors": dict(row.vectors)}) if row.vectors else record


def to_json(row: Row, format: int = FORMAT, indent: int | None = None) -> str:
    """A whole row of a store of this format as JSON, vectors in base64; always valid UTF-8."""
    fields = {"format": format, "kind": row.kind, **json.loads(row.body)}
    if row.vectors:
        fields["vectors"] = {name: b64encode(raw).decode() for name, raw in sorted(row.vectors.items())}
    return _dumped(fields, indent=indent)


def from_json(raw: bytes | str) -> Row:
    """The row of JSON that `to_json` wrote or a person edited. Raises `ValueError`."""
    try:
        fields = json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    number, kind, name = fields.pop("format", FORMAT), fields.pop("kind", None), fields.get("id")
    if not isinstance(number, int) or not 1 <= number <= FORMAT:
        raise ValueError(f"format {number!r}; this Fractal reads 1 to {FORMAT}")
    if not isinstance(kind, str) or not KINDS.fullmatch(kind):
        raise ValueError(f"kind: {kind!r} is not valid")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID:
        raise ValueError(f"id: {name!r} is not valid")
    text = fields.get("text", "")
    if not isinstance(text, str):
        raise ValueError("text: not a string")
    vectors = _vectors(fields.pop("vectors", None) or {})
    return Row(kind, name, _dumped(fields, separators=(",", ":")), text, vectors, number)


def _vectors(encoded: Any) -> dict[str, bytes]:
    if not isinstance(encoded, dict):
        raise ValueError("vectors: not an object")
    vectors: dict[str, bytes] = {}
    for name, text in encoded.items():
        try:
            vectors[name] = b64decode(text, validate=True)
        except (TypeError, ValueError):
            raise ValueError(f"vectors: {name}: not base64") from None
        if not _is_vector(vectors[name]):
            raise ValueError(f"vectors: {name}: not finite numbers of float32")
    return vectors


def refuse_newer(place: Path | str, version: int) -> None:
    """Raise `ConfigurationError` for a store that a later Fractal has written."""
    if version > FORMAT:
        raise ConfigurationError(
            f"{place}: its format is {version}, and this Fractal reads up to {FORMAT}; update Fractal "
            "(pip install --upgrade fractal-runtime), or use a backup of the store from before"
        )


def same(one: Row, other: Row) -> bool:
    """Whether two rows hold the same, whatever the order of their fields."""
    return dict(one.vectors) == dict(other.vectors) and json.loads(one.body) == json.loads(other.body)


def _dumped(fields: Any, **layout: Any) -> str:
    text = json.dumps(fields, ensure_ascii=False, **layout)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(fields, **layout)
    return text
