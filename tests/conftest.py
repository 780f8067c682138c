"""Fixtures that any test may use."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hostile import Hostile
from hypothesis import HealthCheck, settings
from lanes import NIGHT, examples
from llm_server import LlmServer
from playing import Played, player
from postgres_server import PostgresServer, postgres_server

WORKERS = 2


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Run the whole suite in two processes, and tests that are named on the command line in one."""
    return WORKERS if [Path(each).name for each in config.args] == ["tests"] else 0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests marked `alone` first: the other worker waits once, and this process is still small."""
    items.sort(key=lambda item: item.get_closest_marker("alone") is None)


def pytest_collection_finish() -> None:
    """What is there when the tests begin stays: the garbage collector need not look through it ever again.

    It looks seldom at what they make, as one process of so many runs would spend a fifth of its time on that.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """While a test marked `alone` runs, no other worker runs a test.

    Readers and writer: every test holds `running` in shared mode, a test marked `alone` in exclusive mode.
    Whoever waits for it holds `queue`, so that the other worker cannot overtake. Time spent here does not
    count towards a test's timeout.
    """
    if not hasattr(item.config, "workerinput"):
        return (yield)
    locks = Path(item.config.cache.mkdir("locks"))
    alone = item.get_closest_marker("alone") is not None
    with (locks / "queue").open("w") as queue, (locks / "running").open("w") as running:
        fcntl.flock(queue, fcntl.LOCK_EX)
        fcntl.flock(running, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(queue, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(running, fcntl.LOCK_UN)  # closing is not enough where a forked process has the file


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what is for the night, unless FRACTAL_NIGHT=1 asks for it."""
    if item.get_closest_marker("night") and not NIGHT:
        pytest.skip("for the night: runs with FRACTAL_NIGHT=1")


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
settings.register_profile(
    "clockless", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("clockless")  # two of these are clocks
os.environ["FRACTAL_TRUST"] = "all"  # the folders belong to the tests
os.environ["FRACTAL_USER_SKILLS"] = "[]"  # and the skills of who runs them do not
if not NIGHT:  # what a test kills is a process and no machine, so what it has written is there all the same
    os.fsync = lambda fd: None


@pytest.fixture
def llm_server() -> Iterator[LlmServer]:
    """A model provider on loopback; see tests/llm_server.py."""
    with LlmServer().running() as server:
        yield server


@pytest.fixture(scope="session")
def _postgres_server() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres(_postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> PostgresServer:
    """A PostgreSQL server, whose address is in the environment; see tests/postgres_server.py."""
    monkeypatch.setenv("FRACTAL_POSTGRES", _postgres_server.address)
    return _postgres_server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty folder in a directory that a test may use."""
    inside = tmp_path / "folder"
    inside.mkdir()
    return inside


FORGETFUL = {"kernel", "workspace", "evolution", "mcp", "sandbox"}
"""Folders of tests that keep no memory by day."""


@pytest.fixture
def play(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Played]:
    """Plays tasks in the folder `work` with a scripted model; see tests/playing.py."""
    return player(tmp_path / "work", memory=NIGHT or request.path.parent.name not in FORGETFUL)


@pytest.fixture
def hostile(tmp_path: Path, play: Callable[..., Played]) -> Iterator[Hostile]:
    """A workspace with a hostile tool; see tests/hostile.py."""
    made = Hostile(tmp_path / "work", play)
    yield made
    made.clear()
