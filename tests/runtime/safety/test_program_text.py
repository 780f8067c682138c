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


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (
            "tool.py",
            "from urllib.request import urlopen\ndef get(x): return urlopen(x)\n",
            "connects to …",
        ),
        ("tool.py", "import socket\nsocket.create_connection(('a', 1))\n", "opens a socket"),
        ("tool.sh", "curl -s http://a/ || true\n", "connects to http://a/"),
        ("tool.py", "import urllib.parse\nprint(urllib.parse.quote('http://a'))\n", ""),
        ("tool.sh", "echo 'curl http://a'\n", ""),
    ],
)
def test_the_text_of_a_program_says_whether_it_uses_the_network(
    tmp_path: Path, name: str, text: str, says: str
) -> None:
    program = tmp_path / name
    program.write_text(text, "utf-8")
    assert Guard([shipped_system()], tmp_path).connects(program) == says
