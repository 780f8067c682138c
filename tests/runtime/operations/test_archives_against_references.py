"""archive: what it makes, lists and unpacks is what zipfile, tarfile and tar say."""

from __future__ import annotations

import io
import random
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from references import COUNT, cases, outcome, quick_folder

from runtime.operations.archive import archive


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Path]:
    with quick_folder(tmp_path) as folder:
        yield folder


NAMES = ("a.txt", "b c.md", "ünï.txt", ".dot", "x" * 120, "-dash", "empty", "A.TXT", "weird[1]*.txt")
FOLDERS = ("", "d/", "d/e/", "two words/", "d.d/")


def contents(r: random.Random) -> dict[str, bytes]:
    names = [r.choice(FOLDERS) + r.choice(NAMES) for _ in range(r.randint(1, 6))]
    return {name: r.randbytes(r.choice((0, 1, 50, 3000))) for name in names}


def there(folder: Path) -> dict[str, bytes]:
    return {
        each.relative_to(folder).as_posix(): each.read_bytes() for each in folder.rglob("*") if each.is_file()
    }


def empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def read(path: Path) -> dict[str, bytes]:
    """The files in an archive, by Python's own modules."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as opened:
            assert opened.testzip() is None
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(path) as opened:
        return {each.name: opened.extractfile(each).read() for each in opened if each.isfile()}  # type: ignore[union-attr]


def written(path: Path, files: dict[str, bytes], r: random.Random) -> None:
    """An archive made by Python's own modules or by tar."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", r.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as opened:
            for name, data in files.items():
                opened.writestr(name, data)
    elif r.random() < 0.5 and shutil.which("tar"):
        source = empty(path.parent / "source")
        for name, data in files.items():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes(data)
        flags = {".tar": "", ".gz": "z", ".xz": "J", ".bz2": "j"}[path.suffix]
        subprocess.run(["tar", f"-c{flags}f", str(path), "."], cwd=source, check=True)
        shutil.rmtree(source)
    else:
        with tarfile.open(path, "w:" + {".tar": ""}.get(path.suffix, path.suffix[1:])) as opened:  # type: ignore[call-overload]
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                opened.addfile(info, io.BytesIO(data))


def listed(text: str | None) -> dict[str, int]:
    """Names and sizes of a listing; folders are left out."""
    rows = [line.rpartition("  ") for line in (text or "").split("\n") if not line.endswith("/")]
    return {name: int(size.split(" ")[0]) for name, _, size in rows if name}


ENDINGS = ("zip", "zip", "tar", "tar.gz", "tar.xz", "tar.bz2")


def test_what_is_packed_comes_out_again(quick: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        folder, files = empty(quick / "work"), contents(r)
        for name, data in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        packed = f"packed.{r.choice(ENDINGS)}"
        outcome(archive, folder, action="create", path=packed)
        shown = listed(outcome(archive, folder, action="list", path=packed))
        outcome(archive, folder, action="extract", path=packed, to="out")
        sizes = {name: len(data) for name, data in files.items()}
        if not (folder / packed).exists() or read(folder / packed) != files or shown != sizes:
            wrong.append((seed, packed, list(files), shown))
        elif there(folder / "out") != files:
            wrong.append((seed, packed, "unpacked", list(files)))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"


def test_what_others_packed_is_listed_and_unpacked(quick: Path):
    wrong: list[Any] = []
    for seed, r in cases():
        folder, files = empty(quick / "work"), contents(r)
        packed = f"packed.{r.choice(ENDINGS)}"
        written(folder / packed, files, r)
        some = sorted(r.sample(sorted(files), r.randint(1, len(files)))) if r.random() < 0.4 else []
        shown = listed(outcome(archive, folder, action="list", path=packed))
        outcome(archive, folder, action="extract", path=packed, to="out", **({"files": some} if some else {}))
        wanted = {name: data for name, data in files.items() if not some or name in some}
        if shown != {name: len(data) for name, data in files.items()} or there(folder / "out") != wanted:
            wrong.append((seed, packed, list(files), some, shown, sorted(there(folder / "out"))))
    assert not wrong, f"{len(wrong)} of {COUNT}: {wrong[:3]}"
