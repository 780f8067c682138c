"""The shelf in PostgreSQL keeps the contract, between processes and through restarts of the server."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import psycopg
import pytest
from contract import OnDisk
from postgres_server import PostgresServer
from shelves import Note, note, unit

from kernel.errors import ConfigurationError, StorageError
from runtime.memory.store import open_shelf


@pytest.mark.usefixtures("postgres")
class TestPostgres(OnDisk):
    STORE = "postgres:"

    def store(self, folder: Path) -> str:
        return f"postgres:{blake2b(str(folder).encode(), digest_size=8).hexdigest()}"

    test_a_full_disk_is_said_and_loses_nothing = None  # type: ignore[assignment]  # the disk is the server's

    def test_another_format_is_refused(self, tmp_path: Path, postgres: PostgresServer) -> None:
        self.open(tmp_path).close()
        with psycopg.connect(postgres.address) as base:
            base.execute(f'UPDATE "fractal_{self.store(tmp_path)[9:]}".format SET number = 3')
        with pytest.raises(ConfigurationError, match="its format is 3, and this Fractal reads up to 2; update"):
            self.open(tmp_path)
