"""What lies on the shelf: a record as a model, the same as a row, and filters over its fields."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from kernel.errors import UsageError
from runtime.store.cells import text_of

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, np.dtype[np.float32]]
else:
    Vector = Any  # numpy is imported where vectors are

FORMAT = 1
"""Of what is stored; another number is refused, and a migration raises it."""
KINDS = re.compile(r"[a-z][a-z0-9-]{0,39}")
"""A kind names a table and a folder."""
LONGEST_ID = 400
RESERVED = ("format", "kind")


class Record(BaseModel):
    """A base for what is kept. A subclass names its kind and adds fields; `text` is what search finds.

    `vectors` holds float32 rows by the name of the embedder that made them; see `pack` and `vector`.
    """

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="strings")

    KIND: ClassVar[str] = ""

    id: str
    text: str = ""
    vectors: dict[str, bytes] = {}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """A kind that is no name, or a field that the store needs itself, is a fault of the program."""
        super().__pydantic_init_subclass__(**kwargs)
        if not KINDS.fullmatch(cls.KIND):
            raise TypeError(
                f"{cls.__name__}.KIND is {cls.KIND!r}: small letters, digits and hyphens are needed"
            )
        if taken := [name for name in RESERVED if name in cls.model_fields]:
            raise TypeError(f"{cls.__name__}: the store has a use of its own for {', '.join(taken)}")

    @field_validator("id")
    @classmethod
    def _an_id_is_short(cls, value: str) -> str:
        if not 0 < len(value) <= LONGEST_ID:
            raise ValueError(f"an id has 1 to {LONGEST_ID} characters, not {len(value)}")
        return value

    def vector(self, embedder: str) -> Vector | None:
        """The vector that this embedder made, if there is one; it cannot be written to."""
        import numpy as np

        raw = self.vectors.get(embedder)
        return None if raw is None else np.frombuffer(raw, "<f4")


R = TypeVar("R", bound=Record)


def pack(vector: Any) -> bytes:
    """A vector as it is kept: float32, little end first."""
    import numpy as np

    return np.ascontiguousarray(vector, "<f4").ravel().tobytes()


@dataclass(frozen=True, slots=True)
class Row:
    """A record as every store sees it; `body` is JSON without kind and vectors."""

    kind: str
    id: str
    body: str
    said: str | None = field(default="", compare=False)  # its text; None: it stands in the body alone
    vectors: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """What it is found by in words."""
        return text_of(self.body) if self.said is None else self.said


def to_row(record: Record) -> Row:
    """The row of a record; raises `UsageError` for vectors that cannot be compared."""
    for name, raw in record.vectors.items():
        _look_at(record, name, raw)
    try:
        body = record.model_dump_json(exclude={"vectors"})
    except ValueError:
        body = "\ufffd"
    if "\ufffd" in body:  # perhaps a lone surrogate, which is no UTF-8: JSON has an escape for it
        body = json.dumps(record.model_dump(exclude={"vectors"}), default=_plain)
    return Row(record.KIND, record.id, body, record.text, dict(record.vectors))


def _plain(value: Any) -> Any:
    from pydantic_core import to_jsonable_python

    return to_jsonable_python(value, bytes_mode="base64")


def _look_at(record: Record, name: str, raw: bytes) -> None:
    import numpy as np

    if not raw or len(raw) % 4 or not np.isfinite(np.frombuffer(raw, "<f4")).all():
        raise UsageError(f"{record.KIND} {record.id}: its vector of {name} is not finite numbers of float32")


def to_record(kind: type[R], row: Row) -> R:
    """The record of a row; raises `ValueError` when its fields are not those of the model."""
    try:
        record = kind.model_validate_json(row.body)
    except ValidationError:
        if "\\ud" not in row.body.lower():
            raise
        record = kind.model_validate(json.loads(row.body))
    return record.model_copy(update={"vectors": dict(row.vectors)}) if row.vectors else record


# ---- as JSON, for files and for other machines -----------------------------------------------------------


def to_json(row: Row, indent: int | None = None) -> str:
    """A whole row as JSON, vectors in base64; always valid UTF-8."""
    from base64 import b64encode

    told = {"format": FORMAT, "kind": row.kind, **json.loads(row.body)}
    if row.vectors:
        told["vectors"] = {name: b64encode(raw).decode() for name, raw in sorted(row.vectors.items())}
    text = json.dumps(told, ensure_ascii=False, indent=indent)
    return text if text.isascii() or _encodes(text) else json.dumps(told, indent=indent)


def from_json(raw: bytes | str) -> Row:
    """A row of JSON as `to_json` writes it or a person edited it; else `ValueError`."""
    try:
        told = json.loads(raw)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(told, dict):
        raise ValueError("not a JSON object")
    number, kind, name = told.pop("format", FORMAT), told.pop("kind", None), told.get("id")
    if number != FORMAT:
        raise ValueError(f"format {number!r}; this Fractal reads {FORMAT}")
    if not isinstance(kind, str) or not KINDS.fullmatch(kind):
        raise ValueError(f"kind: {kind!r} is none")
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_ID:
        raise ValueError(f"id: {name!r} is none")
    text = told.get("text", "")
    if not isinstance(text, str):
        raise ValueError("text: not a text")
    vectors = _vectors(told.pop("vectors", None) or {})
    body = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    return Row(kind, name, body if _encodes(body) else json.dumps(told, separators=(",", ":")), text, vectors)


def _vectors(told: Any) -> dict[str, bytes]:
    from base64 import b64decode

    import numpy as np

    if not isinstance(told, dict):
        raise ValueError("vectors: not an object")
    vectors: dict[str, bytes] = {}
    for name, coded in told.items():
        try:
            raw = b64decode(coded, validate=True)
        except (TypeError, ValueError):
            raise ValueError(f"vectors: {name}: not base64") from None
        if not raw or len(raw) % 4 or not np.isfinite(np.frombuffer(raw, "<f4")).all():
            raise ValueError(f"vectors: {name}: not finite numbers of float32")
        vectors[name] = raw
    return vectors


def same(one: Row, other: Row) -> bool:
    """Whether two rows say the same, whatever the order of their fields."""
    return dict(one.vectors) == dict(other.vectors) and json.loads(one.body) == json.loads(other.body)


def _encodes(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# ---- filters ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Between:
    """A filter for numbers or texts from `least` to `most`, both included; None is no bound."""

    least: Any = None
    most: Any = None


Where = Mapping[str, Any]
"""Fields, with dots into objects, and what each is: a value, one of a list, tuple or set, or `Between`."""


def suits(body: str, where: Where) -> bool:
    """Whether a row's fields are as the filter says; a field that is missing is None."""
    told = json.loads(body)
    return all(_is(_at(told, path), wanted) for path, wanted in where.items())


def _at(told: Any, path: str) -> Any:
    for name in path.split("."):
        told = told.get(name) if isinstance(told, dict) else None
    return told


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Between):
        return _within(value, wanted)
    if isinstance(wanted, (list, tuple, set, frozenset)):
        return any(_is(value, each) for each in wanted)
    return value == wanted and isinstance(value, bool) == isinstance(wanted, bool)


def _within(value: Any, bounds: Between) -> bool:
    for bound, sign in ((bounds.least, 1), (bounds.most, -1)):
        if bound is None:
            continue
        if isinstance(value, bool) or isinstance(value, str) != isinstance(bound, str):
            return False
        if not isinstance(value, (int, float, str)) or (value < bound if sign > 0 else value > bound):
            return False
    return value is not None
