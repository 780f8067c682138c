"""Every kind of slot that code reads, by its name in markdown; other kinds are lists of words there."""

from __future__ import annotations

from collections.abc import Mapping

from runtime.responders.reflexes import exact, names, stated, values
from runtime.responders.reflexes.slots import Reader, list_of

READERS: Mapping[str, Reader] = {
    "number": values.read_number,
    "numbers": list_of(values.read_number),
    "several numbers": list_of(values.read_number, 2),
    "integer": values.read_integer,
    "percent": values.read_percent,
    "quantity": values.read_quantity,
    "duration": values.read_duration,
    "date": values.read_date,
    "range": values.read_range,
    "path": names.read_path,
    "paths": list_of(names.read_path),
    "several paths": list_of(names.read_path, 2),
    "named paths": list_of(names.read_named),
    "file": names.read_file,
    "files": list_of(names.read_file),
    "folder": names.read_folder,
    "folders": list_of(names.read_folder),
    "bare folders": list_of(names.read_bare_folder),
    "place": names.read_place,
    "places": list_of(names.read_place),
    "name": names.read_name,
    "archive": names.read_archive,
    "json path": names.read_json_path,
    "glob": names.read_glob,
    "kind": names.read_kind,
    "url": names.read_url,
    "quoted": names.read_quoted,
    "word": names.read_word,
    "symbol": names.read_symbol,
    "text": names.read_text,
    "phrase": names.read_phrase,
    "line": names.read_line,
    "column": names.read_column,
    "columns": list_of(names.read_column),
    "value": names.read_value,
    "expression": values.read_expression,
    "statement": stated.read_statement,
    "topic": stated.read_topic,
    **exact.KINDS,
}
