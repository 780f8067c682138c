"""Calls the `fractal` command inside the test process, which saves starting an interpreter."""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Ran:
    exit: int
    out: str
    err: str


def in_process(folder: Path, words: Sequence[str], env: Mapping[str, str], stdin: str = "") -> Ran:
    """Call `fractal` with these words; folder, environment and standard streams are restored afterwards."""
    from runtime.cli import main

    code = 0
    before = Path.cwd(), dict(os.environ), (sys.stdin, sys.stdout, sys.stderr)
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        streams = [io.TextIOWrapper(each, "utf-8", write_through=True) for each in (given, out, err)]
        sys.stdin, sys.stdout, sys.stderr = streams
        try:
            os.chdir(folder)
            _set_environment(env)
            main(words)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdin, sys.stdout, sys.stderr = before[2]
            os.chdir(before[0])
            _set_environment(before[1])
        texts: list[str] = []
        for each in (out, err):
            each.seek(0)
            texts.append(each.read().decode("utf-8", "backslashreplace"))
        return Ran(code, *texts)


def _set_environment(values: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(values)
    time.tzset()
