"""archive: packs and unpacks, and refuses as a whole what would do harm."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import pytest

from runtime.operations.archive import archive

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def zipped(*members: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in members:
            opened.writestr(name, data)
    return out.getvalue()


def tarred(*members: tarfile.TarInfo, data: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as opened:
        for member in members:
            opened.addfile(member, io.BytesIO(data) if member.isfile() else None)
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, target
    return info


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_packed_can_be_listed_and_unpacked(bench, suffix):
    bench.put("docs/a.md", "hello")
    bench.put("docs/sub/ü b.md", "world" * 1000)
    bench.put("docs/empty", "")
    (bench.folder / "docs/a.md").chmod(0o600)
    made = bench.call(archive, action="create", path=f"x{suffix}", files=["docs"])
    assert made.evidence["files"] == 3
    listed = bench.call(archive, action="list", path=f"x{suffix}").text
    assert listed == "docs/a.md  5 bytes\ndocs/empty  0 bytes\ndocs/sub/ü b.md  5000 bytes"
    bench.call(archive, action="extract", path=f"x{suffix}", to="out")
    assert bench.text("out/docs/sub/ü b.md") == "world" * 1000
    both = [f"{at}docs/{name}" for at in ("", "out/") for name in ("a.md", "empty", "sub/ü b.md")]
    assert bench.names() == sorted([f"x{suffix}", *both])


def test_only_some_members_are_unpacked(bench):
    bench.put("x.zip", zipped(("a/1", b"1"), ("a/2", b"2"), ("b/1", b"3")))
    bench.call(archive, action="extract", path="x.zip", to="out", files=["a", "b/1"])
    assert bench.names() == ["out/a/1", "out/a/2", "out/b/1", "x.zip"]
    assert "is not in x.zip" in bench.fails(archive, action="extract", path="x.zip", to="o", files=["c"])


def test_the_same_files_give_the_same_archive(bench):
    bench.put("d/b", "1")
    bench.put("d/a", "2")
    for suffix in (".zip", ".tar.gz"):
        for name in ("x", "y"):
            bench.call(archive, action="create", path=name + suffix, files=["d"])
        assert (bench.folder / f"x{suffix}").read_bytes() == (bench.folder / f"y{suffix}").read_bytes()


def test_create_takes_globs_leaves_out_links_and_never_itself(bench, tmp_path):
    bench.put("a.md", "1")
    bench.put("d/b.md", "2")
    bench.put("c.txt", "3")
    (bench.folder / "link.md").symlink_to(tmp_path)
    bench.call(archive, action="create", path="x.zip", files=["*.md"])
    assert bench.call(archive, action="list", path="x.zip").text == "a.md  1 byte\nd/b.md  1 byte".replace(
        "1 byte", "1 bytes"
    )
    assert bench.call(archive, action="create", path="all.zip").evidence["files"] == 4
    assert "exists already" in bench.fails(archive, action="create", path="x.zip")
    assert "no file matches" in bench.fails(archive, action="create", path="y.zip", files=["*.rs"])
    assert "outside" in bench.fails(archive, action="create", path="y.zip", files=["../x"])
    assert "name it .zip" in bench.fails(archive, action="create", path="y.rar", files=["a.md"])
    assert "protected" in bench.fails(archive, action="create", path="state/y.zip", files=["a.md"])


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/etc/evil", "..\\evil", "C:\\evil", "x/" * 600 + "y"]
)
def test_members_that_lead_out_are_refused_before_anything_is_written(bench, name):
    bench.put("x.zip", zipped(("good", b"1"), (name, b"2")))
    bench.put("x.tar.gz", tarred(member("good"), member(name)))
    for path in ("x.zip", "x.tar.gz"):
        assert "leads outside" in bench.fails(archive, action="extract", path=path, to="out")
        assert "leads outside" in bench.fails(archive, action="list", path=path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_refused(bench, kind):
    bench.put("x.tar.gz", tarred(member("a", kind, target="/etc/passwd"), member("b")))
    assert "a link or a device" in bench.fails(archive, action="extract", path="x.tar.gz", to="out")


def test_a_link_in_a_zip_is_refused(bench):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    bench.put("x.zip", zipped((info, b"/etc/passwd")))
    assert "a link or a device" in bench.fails(archive, action="extract", path="x.zip", to="out")


def test_bombs_are_refused(bench):
    bench.put("x.zip", zipped(("zeros", bytes(60_000_000))))
    bench.put("y.tar.gz", tarred(member("zeros", size=60_000_000), data=bytes(60_000_000)))
    bench.put("many.zip", zipped(*((f"{n}", b"") for n in range(10_001))))
    for path in ("x.zip", "y.tar.gz"):
        assert "looks like a bomb" in bench.fails(archive, action="extract", path=path, to="out")
    assert "more than 10,000 files" in bench.fails(archive, action="extract", path="many.zip", to="out")


def test_a_header_that_lies_about_sizes_gains_nothing(bench):
    honest = zipped(("a", b"x" * 5_000))
    bench.put("x.zip", honest.replace((5_000).to_bytes(4, "little"), (5).to_bytes(4, "little")))
    assert bench.fails(archive, action="extract", path="x.zip", to="out")
    info = member("a", size=2**40)
    bench.put("y.tar.gz", gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    assert bench.fails(archive, action="extract", path="y.tar.gz", to="out")
    pax = member("p", tarfile.XHDTYPE, size=2**40)
    bench.put("z.tar.gz", gzip.compress(pax.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    assert bench.fails(archive, action="list", path="z.tar.gz")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize(
    "content", [b"", b"not an archive", b"PK\3\4" + b"x" * 50, b"\x1f\x8b\x08" + b"x" * 50]
)
def test_what_is_no_archive_is_reported(bench, suffix, content):
    bench.put(f"x{suffix}", content)
    assert f"x{suffix}" in bench.fails(archive, action="extract", path=f"x{suffix}", to="out")


def test_a_truncated_archive_leaves_nothing_behind(bench):
    import random

    noise = random.Random(1).randbytes(300_000)
    whole = tarred(member("a", size=300_000), data=noise)
    bench.put("x.tar.gz", whole[: len(whole) // 2])
    assert bench.fails(archive, action="extract", path="x.tar.gz", to="out")
    assert bench.names() == ["x.tar.gz"]


def test_an_encrypted_zip_is_reported(bench):
    data = bytearray(zipped(("a", b"secret")))
    for at in (data.find(b"PK\3\4") + 6, data.find(b"PK\1\2") + 8):
        data[at] |= 1
    bench.put("x.zip", bytes(data))
    assert "encrypted" in bench.fails(archive, action="extract", path="x.zip", to="out")


def test_extracting_overwrites_nothing_and_respects_what_is_protected(bench, tmp_path):
    bench.put("x.zip", zipped(("a", b"new"), ("b", b"new")))
    bench.put("out/b", "old")
    (bench.folder / "away").symlink_to(tmp_path)
    assert "out/b: exists already" in bench.fails(archive, action="extract", path="x.zip", to="out")
    assert "outside" in bench.fails(archive, action="extract", path="x.zip", to="away")
    assert "protected" in bench.fails(archive, action="extract", path="x.zip", to="state")
    bench.put("y.zip", zipped((".git/hooks/post-commit", b"evil"), ("system/x", b"evil")))
    assert "protected" in bench.fails(archive, action="extract", path="y.zip")
    bench.put("twice.zip", zipped(("a", b"1"), ("./a", b"2")))
    assert "twice" in bench.fails(archive, action="extract", path="twice.zip", to="o")
    bench.put("mixed.zip", zipped(("a", b"1"), ("a/b", b"2")))
    assert bench.fails(archive, action="extract", path="mixed.zip", to="o")
    assert bench.call(archive, action="extract", path="x.zip").text == "extracted 2 files from x.zip into ."


def test_wrong_calls_are_reported(bench):
    bench.put("x.zip", zipped(("a", b"1")))
    assert "goes with action: extract" in bench.fails(archive, action="list", path="x.zip", to="out")
    assert "no such file" in bench.fails(archive, action="list", path="nope.zip")
