"""The operation csv: questions about a table, such as `sum amount by region` or `rows where amount > 10`."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from kernel.errors import OperationFailed
from kernel.operations import OperationContext, Result, Touch, bytes_hash, operation
from runtime.operations.cells import read_table
from runtime.operations.questions import Answer, answer
from runtime.operations.texts import encoded, read_text, save
from runtime.operations.walking import Deadline, relative


def _prepare(
    ctx: OperationContext, query: str, path: str = "", text: str = "", to: str = ""
) -> tuple[Touch, ...]:
    if not to:
        return ()
    written = _written(_asked(ctx, query, path, text))
    return (Touch(ctx.writable(to), bytes_hash(encoded(written, "the table"))),)


@operation(_prepare)
def query_csv(ctx: OperationContext, query: str, path: str = "", text: str = "", to: str = "") -> Result:
    """The answer to a question about the table in a file or a text; a table is returned as CSV."""
    target: Path | None = ctx.writable(to) if to else None
    found = _asked(ctx, query, path, text)
    evidence: dict[str, Any] = dict(found.evidence)
    if found.table is not None:
        evidence["rows"] = len(found.table.rows)
    written = _written(found)
    if target is None:
        return Result(written.removesuffix("\n"), evidence=evidence)
    save(target, encoded(written, "the table"), to)
    name = relative(ctx, target)
    what = f"{len(found.table.rows)} rows" if found.table is not None else "the answer"
    return Result(f"wrote {what} to {name}", evidence={**evidence, "to": name})


def _asked(ctx: OperationContext, query: str, path: str, text: str) -> Answer:
    if bool(path) == bool(text):
        raise OperationFailed("give either path, the file with the table, or text that is not empty")
    encoded(text, "text")
    encoded(query, "query")
    table = read_table(read_text(ctx, path) if path else text.removeprefix("\ufeff"), path or "the text")
    return answer(table, query, Path(path).stem, Deadline(ctx.timeout * 0.9))


def _written(found: Answer) -> str:
    if found.table is None:
        return f"{found.text}\n"
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([found.table.header, *found.table.rows])
    return out.getvalue()
