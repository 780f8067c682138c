"""The text of a program is judged by what it plainly does, not by what depends on its arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.api.fractal import shipped_system
from runtime.safety.guard import Guard


@pytest.mark.parametrize(
    ("name", "text", "rules"),
    [
        ("tool.py", "import shutil\nshutil.rmtree('/')\n", ["delete-everything"]),
        ("tool.sh", "rm -rf ~\n", ["delete-everything"]),
        ("tool", "#!/usr/bin/env python3\nimport shutil\nshutil.rmtree('/')\n", ["delete-everything"]),
        ("tool.py", "import json, sys\nopen(json.load(sys.stdin)['to'], 'w').write('x')\n", []),
        ("tool.py", "import shutil, sys\nshutil.rmtree(sys.argv[1])\n", []),
        ("tool.sh", 'cp "$1" "$2"\n', []),
    ],
)
def test_a_program_is_judged_by_its_text(tmp_path: Path, name: str, text: str, rules: list[str]) -> None:
    program = tmp_path / name
    program.write_text(text, "utf-8")
    assert [each.rule for each in Guard([shipped_system()], tmp_path).program(program)] == rules
