"""A collection of Agent Skills: each field of the specification, and common deviations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

GUIDE = "\n# How\n\nDo it carefully.\n"


@dataclass(frozen=True)
class Case:
    """A folder, the content of its SKILL.md, and the expected name or error message."""

    folder: str
    text: str | bytes
    name: str = ""
    describes: str = ""
    fault: str = ""
    departs: str = ""
    file: str = "SKILL.md"

    @property
    def raw(self) -> bytes:
        return self.text if isinstance(self.text, bytes) else self.text.encode()


def skill(head: str, body: str = GUIDE) -> str:
    return f"---\n{head}\n---\n{body}"


def named(name: str, more: str = "", body: str = GUIDE) -> str:
    return skill(f"name: {name}\ndescription: about {name}" + (f"\n{more}" if more else ""), body)


LONG = "word " * 300
ALL_FIELDS = """license: Apache-2.0
compatibility: Requires git and network access
metadata:
  author: example-org
  version: "1.0"
allowed-tools: Bash(git:*) Bash(jq:*) Read"""

CASES = [
    # valid by the specification
    Case("plain", named("plain"), "plain", "about plain"),
    Case("all-fields", named("all-fields", ALL_FIELDS), "all-fields", "about all-fields"),
    Case("licence-file", named("licence-file", "license: Proprietary. See LICENSE.txt"), "licence-file"),
    Case("nested-metadata", named("nested-metadata", "metadata: {a: {b: [1, {c: 2}]}}"), "nested-metadata"),
    Case("tools-as-a-list", named("tools-as-a-list", "allowed-tools: [Bash, Read]"), "tools-as-a-list"),
    Case("unknown-keys", named("unknown-keys", "model: opus\nhooks: {x: y}\nstatus: draft"), "unknown-keys"),
    Case("quoted", skill('name: "quoted"\ndescription: "Use when: a \\"b\\""'), "quoted", 'Use when: a "b"'),
    Case(
        "folded", skill("name: folded\ndescription: >-\n  one\n  two\n\n  three"), "folded", "one two three"
    ),
    Case("literal", skill("name: literal\ndescription: |\n  one\n    two"), "literal", "one two"),
    Case("plain-lines", skill("name: plain-lines\ndescription: one\n  two"), "plain-lines", "one two"),
    Case("digits-2", named("digits-2"), "digits-2"),
    Case("a" * 64, named("a" * 64), "a" * 64),
    Case("emoji", skill("name: emoji\ndescription: parties 🎉 and 数据"), "emoji", "parties 🎉 and 数据"),
    Case("comments", skill("# ours\nname: comments # the name\ndescription: x"), "comments", "x"),
    # encodings and line ends of editors
    Case("bom", b"\xef\xbb\xbf" + named("bom").encode(), "bom", "about bom"),
    Case("crlf", named("crlf").replace("\n", "\r\n"), "crlf", "about crlf"),
    Case("cr", named("cr").replace("\n", "\r"), "cr", "about cr"),
    Case("wide", named("wide").encode("utf-16"), "wide", "about wide"),
    Case("spaces-after", named("spaces-after").replace("---", "---  "), "spaces-after"),
    Case("lines-before", "\n\n" + named("lines-before"), "lines-before"),
    Case("small-letters", named("small-letters"), "small-letters", file="skill.md"),
    Case("escapes", skill('name: escapes\ndescription: "a\\e[31mred\\u202e b"'), "escapes", "a[31mred b"),
    # deviations that are accepted
    Case(
        "colon",
        skill("name: colon\ndescription: Use when: the user says: go"),
        "colon",
        "Use when: the user says: go",
        departs="line 3: the frontmatter is not YAML; put values with a colon in quotes",
    ),
    Case(
        "tabs",
        skill("name: tabs\ndescription: Use it: >\n\tand more"),
        "tabs",
        "Use it: > and more",
        departs="is not YAML",
    ),
    Case(
        "brackets",
        skill("name: brackets\ndescription: [draft] fix"),
        "brackets",
        "[draft] fix",
        departs="YAML",
    ),
    Case("a-list", skill("name: a-list\ndescription: [one, two]"), "a-list", "one two"),
    Case("a-number", skill("name: a-number\ndescription: 42"), "a-number", "42"),
    Case(
        "no-frontmatter",
        "# PDF forms\n\nFills in forms\nof all kinds.\n\nMore.\n",
        "no-frontmatter",
        "Fills in forms of all kinds.",
        departs="line 1: name is missing; it is called after its folder",
    ),
    Case("only-a-title", "# PDF forms\n", "only-a-title", "PDF forms", departs="description is missing"),
    Case("never-closed", "---\nname: never-closed\ndescription: x\n\n# How\n\nGo.\n", "never-closed", "x"),
    Case("no-name", skill("description: x"), "no-name", "x", departs="name is missing"),
    Case("empty-name", skill("name:\ndescription: x"), "empty-name", "x", departs="name is missing"),
    Case("no-description", skill("name: no-description"), "no-description", "Do it carefully."),
    Case("null-description", skill("name: null-description\ndescription:"), "null-description", "Do it"),
    Case(
        "other-name", named("another"), "another", departs="'another' is not that of its folder, 'other-name'"
    ),
    Case(
        "upper",
        named("Upper-Case"),
        "upper-case",
        departs="line 2: name: 'Upper-Case' is read as 'upper-case'",
    ),
    Case("PDF Processing", skill("description: x"), "pdf-processing", "x"),
    Case("too-long", named("b" * 70), "b" * 64, departs="at most 64"),
    Case("hyphens", named("-two--hyphens-"), "two-hyphens"),
    Case("accents", named("Résumé"), "resume"),
    Case(
        "wordy", skill(f"name: wordy\ndescription: {LONG}"), "wordy", LONG.strip()[:80], departs="1,499 char"
    ),
    Case("no-body", skill("name: no-body\ndescription: x", ""), "no-body", "x", departs="there is no text"),
    Case("rules-in-it", named("rules-in-it", body="a\n\n---\n\nb\n\n---\n"), "rules-in-it"),
    Case(
        "phase-words",
        named("phase-words", body="# Do not guess\n\nNever.\n\n## Plan\n\nNone.\n"),
        "phase-words",
    ),
    Case("large", named("large", body="A long line of guidance.\n" * 12_500), "large"),
    Case("a-mapping", skill("name: a-mapping\ndescription: {a: b}"), "a-mapping", "Do it carefully."),
    Case("not-a-mapping", skill("- one\n- two"), "not-a-mapping", "Do it carefully.", departs="no mapping"),
    # errors
    Case("empty", "", fault=":1: it says nothing: write name and description between --- lines"),
    Case("blank", "\n \n", fault=":1: it says nothing"),
    Case(
        "latin", b"---\nname: latin\ndescription: caf\xe9\n---\nx\n", fault=":3: this is not UTF-8 text; save"
    ),
    Case("binary", b"---\nname: binary\n\0\0\0", fault=":3: this is no text; write it as UTF-8"),
    Case(
        "数据",
        skill("name: 数据\ndescription: x"),
        fault=":2: name: '数据' has none of a-z and 0-9; give it a name",
    ),
    Case("huge", named("huge", body="x" * 5_000_000), fault=":1: …bytes are too many"),
    Case("read", named("read"), fault=":1: name: 'read' is one of the kernel's own; give it another name"),
    Case("twice", named("plain"), fault=":1: name: 'plain' is taken by"),
]


def collection(folder: Path) -> Path:
    """Write the collection, with scripts, references and assets for some."""
    for case in CASES:
        put(folder / case.folder / case.file, case.raw)
    put(folder / "all-fields" / "scripts" / "count.sh", b'wc -l < "$1"\n')
    put(folder / "all-fields" / "references" / "deep" / "FORMS.md", b"# Forms\n\nThe secret word is heron.\n")
    put(folder / "all-fields" / "assets" / "logo.png", bytes(range(256)))
    put(folder / "all-fields" / ".hidden", b"x")
    put(folder / "all-fields" / "node_modules" / "x" / "index.js", b"x")
    put(folder / "category" / "inner" / "SKILL.md", named("inner").encode())
    put(folder / "plain" / "nested" / "SKILL.md", named("nested").encode())
    elsewhere = folder.parent / "elsewhere" / "linked"
    put(elsewhere / "SKILL.md", named("linked").encode())
    (folder / "linked").symlink_to(elsewhere)
    (folder / "dangling").symlink_to(folder / "nowhere")
    (folder / "README.md").write_text("# The collection\n", "utf-8")
    return folder


def put(path: Path, raw: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
