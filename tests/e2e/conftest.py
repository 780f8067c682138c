"""Fixtures of end-to-end tests: the run of processes.py without faults, and its model."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from processes import script, undisturbed_outcome


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome of the run without faults."""
    return undisturbed_outcome(tmp_path_factory.mktemp("undisturbed") / "work")


@pytest.fixture
def model(tmp_path: Path) -> str:
    """The scripted model of the run."""
    return f"scripted:{script(tmp_path / 'model.json')}"


SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t which, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(which, now);
    if (which == CLOCK_REALTIME) {
        long jump = 0;
        FILE *file = fopen(getenv("CLOCK_JUMP"), "r");
        if (file) { if (fscanf(file, "%ld", &jump) != 1) jump = 0; fclose(file); }
        now->tv_sec += jump;
    }
    return result;
}
"""


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that shifts the wall clock of a process, but no monotonic clock, by the seconds in a file."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler is here, so the clock of a process cannot be made to jump")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    words = ["cc", "-shared", "-fPIC", "-o", str(folder / "shim.so"), str(folder / "shim.c"), "-ldl"]
    subprocess.run(words, check=True)
    return folder / "shim.so"


@pytest.fixture
def jumping(tmp_path: Path, shim: Path) -> tuple[Path, dict[str, str]]:
    """A file with the seconds by which the clock of a process jumps, and the environment of that process."""
    jump = tmp_path / "jump"
    return jump, {"LD_PRELOAD": str(shim), "CLOCK_JUMP": str(jump)}
