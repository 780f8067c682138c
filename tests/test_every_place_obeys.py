"""Every place that starts a program, reads instructions, reaches into `state/`, shows something, or takes
something from outside goes through the one function for it. A new place fails until it does.

docs/security.md has the table of these functions ("One way for each"), with the test that finds a new place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "security.md"
BOOKKEEPERS = {"runtime/evolution/files.py", "runtime/evolution/journal.py"}
"""They note which files changed, for `fractal system log`; nothing that they read is used."""
WATCHING = """
import json, os, sys

system, source = sys.argv[1] + os.sep, sys.argv[2] + os.sep
readers = set()

def hook(event, args):
    if event != "open" or not isinstance(args[0], (str, bytes, os.PathLike)):
        return
    path = os.fsdecode(args[0])
    if path.startswith(system):
        frame, names = sys._getframe(1), []
        while frame:
            names.append(frame.f_code.co_filename.removeprefix(source))
            frame = frame.f_back
        ours = [name for name in names if name.startswith(("kernel/", "runtime/"))]
        by = next(name for name in ours if name != "kernel/disk.py")
        readers.add((path[len(system):], by))

sys.addaudithook(hook)
from runtime.cli import main
try:
    main(sys.argv[3:])
finally:
    print("readers " + json.dumps(sorted(readers)))
"""


def test_the_page_has_one_way_for_each_kind_of_place() -> None:
    table = DOCS.read_text("utf-8").partition("## One way for each")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]
    assert len(rows) >= 7
    for row in rows:
        _, kind, places, test, _ = map(str.strip, row.split("|"))
        assert kind and re.search(r"`test_\w+`", test), row
        for place in re.findall(r"`((?:kernel|runtime)/[\w/]+\.py)`", places):
            assert (ROOT / place).is_file(), place


def test_instructions_are_read_as_they_were_allowed(tmp_path: Path) -> None:
    """The module that compares digests opens each file of `system/` that a run uses."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "system", work / "system")
    (work / "fractal.yaml").write_text("model: scripted:script.yaml\n")
    steps = [
        {"tool": "note", "args": {"text": "one"}, "needs": []},
        {"tool": "bash", "args": {"command": "echo two"}, "needs": []},
    ]
    script = {"plan": {"steps": steps}, "check": {"verdict": "ACCEPT", "reason": "done"}}
    (work / "script.yaml").write_text(json.dumps(script))
    env = {
        **os.environ,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "own"),
        "FRACTAL_TRUST": "all",
    }
    readers: set[tuple[str, str]] = set()
    for task in ("What is 2 + 3?", "do the work with all that you have"):
        words = [sys.executable, "-c", WATCHING, str(work / "system"), str(ROOT), "run", "--yes", task]
        ran = subprocess.run(words, cwd=work, env=env, capture_output=True, text=True)
        hit = re.search("^readers (.*)$", ran.stdout, re.MULTILINE)
        assert hit, ran.stderr
        readers |= {tuple(each) for each in json.loads(hit[1])}
    used = {(file, by) for file, by in readers if by not in BOOKKEEPERS}
    assert len(used) > 50 and {"pattern.md", "dangers.md"} <= {file for file, _ in used}
    assert {by for _, by in used} == {"runtime/pinned.py"}, sorted(used)
