"""The folder of the everyday tasks: files, archives and a git repository."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

FILES: Mapping[str, str] = {
    "notes.md": """# Project notes

The launch is planned for March.
TODO: write the press release
Contact: anna@example.com

## Budget

We have 4500 euros left.
TODO: ask Ben about the invoice
The error rate fell last week.
See https://example.com/plan for details.
""",
    "todo.txt": "buy milk\ncall the dentist\npay rent\nbuy stamps\n",
    "a.txt": "red\ngreen\nblue\n",
    "b.txt": "red\nyellow\nblue\n",
    "backup/a.txt": "red\ngreen\nblue\n",
    "words.txt": "pear\napple\nfig\nbanana\napple\ncherry\nfig\n",
    "numbers.txt": "42\n7\n19\n100\n3\n",
    "sales.csv": """date,region,product,units,price
2024-01-05,North,Lamp,3,20.00
2024-01-09,South,Desk,1,150.00
2024-02-11,North,Chair,4,45.50
2024-02-20,East,Lamp,2,20.00
2024-03-02,South,Chair,6,45.50
2024-03-15,North,Desk,2,150.00
""",
    "people.csv": "name,age,city\nMaria,52,Rome\nLee,19,Seoul\nOmar,33,Cairo\nIvy,27,Leeds\n",
    "people.json": """[
  {"name": "Anna", "age": 34, "city": "Oslo"},
  {"name": "Ben", "age": 27, "city": "Lyon"},
  {"name": "Chloe", "age": 41, "city": "Oslo"}
]
""",
    "config.json": """{
  "name": "demo",
  "version": "1.4.2",
  "port": 8080,
  "debug": false,
  "database": {"host": "localhost", "user": "admin"},
  "tags": ["web", "beta"]
}
""",
    "logs/app.log": """2024-05-01 10:00:01 INFO started
2024-05-01 10:00:05 WARNING disk almost full
2024-05-01 10:01:12 ERROR cannot reach database
2024-05-01 10:02:30 INFO retrying
2024-05-01 10:02:31 ERROR cannot reach database
2024-05-01 10:05:00 INFO connected
2024-05-01 10:06:44 ERROR timeout on /login
2024-05-01 10:07:00 INFO stopped
""",
    "src/app.py": """import util


def main():
    # TODO: read the port from config
    print(util.greet("world"))


if __name__ == "__main__":
    main()
""",
    "src/util.py": 'def greet(name):\n    return f"Hello, {name}!"\n\n\ndef add(a, b):\n    return a + b\n',
    "src/test_app.py": "import util\n\n\ndef test_add():\n    assert util.add(1, 2) == 3\n",
    "docs/guide.md": "# Guide\n\nInstall it, start it, read on.\n",
    "docs/faq.md": "# Questions\n\n## Who made this?\n\nA few friends.\n",
    "docs/old.md": "# Old page\n\nNobody needs this any more.\n",
    "hello.py": 'print("hi there")\n',
}
PACKED: Mapping[str, Mapping[str, str]] = {
    "bundle.zip": {"readme.txt": "unpack me\n", "values.csv": "k,v\na,1\n"},
    "logs.tar.gz": {"one.log": "1\n", "two.log": "2\n"},
}
COMMITS = (
    ("Add notes", ("notes.md", "todo.txt", "words.txt", "numbers.txt")),
    ("Add sales data", ("sales.csv", "people.csv", "people.json", "config.json")),
    ("Fix a typo in the guide", (".",)),
)
UNCOMMITTED: Mapping[str, str] = {
    "todo.txt": "buy milk\ncall the dentist\npay rent\nbuy stamps\nwater the plants\n",
    "draft.txt": "nothing much yet\n",
}
OWN = frozenset({".git", ".fractal", "state", "system", "fractal.yaml", ".gitignore"})
"""Files of git and Fractal, not of the user."""


def create(folder: Path) -> None:
    """Fill an empty folder."""
    for name, text in FILES.items():
        _write(folder / name, text)
    for name, members in PACKED.items():
        _pack(folder / name, members)
    _write(folder / ".gitignore", "state/\n")
    _git(folder, "init", "-q", "-b", "main")
    for message, names in COMMITS:
        _git(folder, "add", *names)
        _git(folder, "commit", "-q", "-m", message)
    for name, text in UNCOMMITTED.items():
        _write(folder / name, text)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _pack(path: Path, members: Mapping[str, str]) -> None:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in members.items():
                archive.writestr(name, text)
        return
    with tarfile.open(path, "w:gz") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))


def _git(folder: Path, *words: str) -> None:
    author = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Dana"), ("EMAIL", "dana@example.com"), ("DATE", "2024-05-01T12:00:00Z"))
    }
    config = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, check=True, env={**os.environ, **author, **config})


def files_in(folder: Path) -> dict[str, bytes | None]:
    """The content of each file in a folder by its path; None for a folder, whose path ends with `/`."""
    content: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if name.parts[0] in OWN or "__pycache__" in name.parts:
            continue
        if path.is_dir():
            content[f"{name.as_posix()}/"] = None
        else:
            content[name.as_posix()] = path.read_bytes()
    return content


def archive_members(data: bytes) -> set[str]:
    """The names of the files in an archive, without their folders."""
    stream = io.BytesIO(data)
    if zipfile.is_zipfile(stream):
        names = zipfile.ZipFile(stream).namelist()
    else:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = [each.name for each in archive if each.isfile()]
    return {Path(name).name for name in names if not name.endswith("/")}
