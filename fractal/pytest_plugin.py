"""The pytest plugin: the fixture `fractal_replay`, and the option `--fractal-record` that records again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fractal import Fractal

OPTION = "--fractal-record"


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
        log = log if log.suffix == ".jsonl" else log / "calls.jsonl"
        if model is None and not log.is_file():
            pytest.fail(f"{log}: there is no such recording; make it with: pytest {OPTION} MODEL")
        rung = _recorder(model) if model else {"model": f"replay:{log}", "options": {"strict": strict}}
        ladder = [{"model": "reflex"}, rung, {"model": "person"}]
        fractal = Fractal(folder, settings={"ladder": ladder, **settings}, trusted=True)
        opened.append((fractal, log))
        return fractal

    yield replay
    for fractal, log in opened if model else ():
        _keep(fractal, log)


def _recorder(model: str) -> dict[str, Any]:
    """The rung that is recorded, asked in the form in which a replay is asked."""
    from runtime.models import default_form

    return (
        {"model": model} if default_form(model) == "micro" else {"model": model, "options": {"form": "json"}}
    )


def _keep(fractal: Fractal, log: Path) -> None:
    """Copy the replies of the one run in a workspace."""
    runs = [fractal.workspace.runs / each.run / "calls.jsonl" for each in fractal.runs()]
    asked = [each for each in runs if each.is_file()]
    if len(asked) != 1:
        pytest.fail(f"{log}: a recording has one run that asks a model, and this test had {len(asked)}")
    log.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(asked[0], log)
