"""A PostgreSQL server in a temporary folder, on a Unix socket: `initdb` and `pg_ctl` of the machine."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class PostgresServer:
    """A server without password and fsync. PostgreSQL refuses root: then another user runs it."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder, self.data = programs, folder, folder / "data"
        self.user: int | None = None
        if os.geteuid() == 0:
            self.user = pwd.getpwnam("nobody").pw_uid
            os.chown(folder, self.user, -1)
        folder.chmod(0o755)
        self._run("initdb", "-U", "tests", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    @property
    def address(self) -> str:
        return f"postgresql://tests@/postgres?host={self.folder}"

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses= -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        """End it at once, with all its connections."""
        self._run("pg_ctl", "-w", "-m", "fast", "stop")

    def _run(self, program: str, *words: str) -> None:
        command = [str(self.programs / program), "-D", str(self.data), *words]
        subprocess.run(command, user=self.user, cwd="/", check=True, stdout=subprocess.DEVNULL)


@contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """A running server; skips the test where none is installed."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    found = shutil.which("initdb") or (str(known[-1]) if known else "")
    if not found:
        pytest.skip("PostgreSQL (initdb) is not installed")
    with tempfile.TemporaryDirectory(prefix="fractal-pg-") as folder:
        server = PostgresServer(Path(found).resolve().parent, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
