"""The pytest plugin: the fixture `fractal_replay`, and the option `--fractal-record` that records again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fractal import Fractal

OPTION = "--fractal-record"
LOG = "calls.jsonl"
PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.getgroup("fractal").addoption(
        OPTION, metavar="MODEL", help="Let MODEL answer in tests with fractal_replay, and keep its replies."
    )


@pytest.fixture
def fractal_replay(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Fractal]]:
    """A function that opens a `Fractal` whose model answers from a recorded run.

    `fractal_replay(recording, folder, *, strict=True, **settings)`: the recording is a run's folder or its
    `calls.jsonl`, relative to the folder of the test's file. The run's folder is by default `tmp_path`.
    `strict` accepts only requests with exactly the recorded text; without it the reply at the same place
    is used when the task is the same.
    """
    model: str | None = request.config.getoption(OPTION)
    opened: list[tuple[Fractal, Path]] = []

    def replay(
        recording: str | Path, folder: str | Path = tmp_path, *, strict: bool = True, **settings: Any
    ) -> Fractal:
        from fractal import Fractal

        log = request.path.parent / recording
        log = log if log.suffix == ".jsonl" else log / LOG
        if model is None and not log.is_file():
            pytest.fail(f"{log}: there is no such recording; make it with: pytest {OPTION} MODEL")
        rung = _recorder(model) if model else {"model": f"replay:{log}", "options": {"strict": strict}}
        ladder = [{"model": "reflex"}, rung, {"model": "person"}]
        fractal = Fractal(folder, settings={"ladder": ladder, **settings}, trusted=True)
        opened.append((fractal, log))
        return fractal

    yield replay
    for fractal, log in opened if model and request.node.stash.get(PASSED, False) else ():
        _keep(fractal, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Note whether a test has passed: a failed one keeps no recording."""
    report = yield
    if call.when == "call":
        item.stash[PASSED] = report.passed
    return report


def _recorder(model: str) -> dict[str, Any]:
    """The rung that is recorded, asked in the form in which a replay is asked."""
    from runtime.models import default_form

    return (
        {"model": model} if default_form(model) == "micro" else {"model": model, "options": {"form": "json"}}
    )


def _keep(fractal: Fractal, log: Path) -> None:
    """Copy the replies of the one run in a workspace, and its root document, which has the task."""
    from kernel.document.model import root_id

    runs = [fractal.workspace.runs / each.run / LOG for each in fractal.runs()]
    asked = [each for each in runs if each.is_file()]
    if len(asked) != 1:
        pytest.fail(f"{log}: a recording has one run that asks a model, and this test had {len(asked)}")
    log.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(asked[0], log)
    if log.name == LOG:  # the folder has this recording alone
        for old in log.parent.glob("system-*.md"):
            old.unlink()
        root = asked[0].with_name(f"{root_id(asked[0].parent.name)}.md")
        shutil.copyfile(root, log.parent / root.name)
