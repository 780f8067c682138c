"""Redaction of secrets, neutralised terminal escapes, and cut texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import within

from kernel.document.redaction import cut, neutralise, redact


def test_terminal_escapes_are_neutralised() -> None:
    assert neutralise("\x1b[31mred\x1b]0;title\x07\x9b2J") == "␛[31mred␛]0;title␇\\x9b2J"
    assert neutralise("10%\r20%\r\nnext\tcolumn\n") == "10%␍20%\r\nnext\tcolumn\n"


@given(st.text())
def test_neutralising_removes_only_control_characters(text: str) -> None:
    shown = neutralise(text)
    left = shown.replace("\r\n", "").replace("\t", "").replace("\n", "")
    assert not [each for each in left if ord(each) < 32 or 0x7F <= ord(each) < 0xA0]
    assert neutralise(shown) == shown
    if text.isprintable():
        assert shown == text


ENVIRON = {
    "OPENAI_API_KEY": "abcdefgh12345678",
    "DB_PASSWORD": "hunter2hunter2",
    "GITHUB_TOKEN": "abcdefgh",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG",
    "PIN_SECRET": "1234567",
    "HOME": "/srv/somebody",
    "SSH_KEY_PATH": "/srv/somebody/key",
    "MONKEY": "bananabanana",
    "PWD": "/srv/somebody/work",
    "DB_PWD": "letmein-letmein",
}


def test_secret_environment_values_are_redacted() -> None:
    text = "key=abcdefgh12345678 pass hunter2hunter2 abcdefgh wJalrXUtnFEMI/K7MDENG letmein-letmein"
    assert redact(text, ENVIRON) == (
        "key=[redacted OPENAI_API_KEY] pass [redacted DB_PASSWORD] [redacted GITHUB_TOKEN] "
        "[redacted AWS_SECRET_ACCESS_KEY] [redacted DB_PWD]"
    )
    plain = "1234567 /srv/somebody /srv/somebody/key bananabanana /srv/somebody/work/a.py"
    assert redact(plain, ENVIRON) == plain


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-" + "a1B2" * 10,
        "sk-ant-api03-" + "x9_-" * 10,
        "ghp_" + "A1b2" * 9,
        "github_pat_" + "A1b2_" * 8,
        "glpat-" + "abcde12345" * 2,
        "AKIA" + "ABCDEFGH12345678",
        "xoxb-1234567890-abcdef",
        "AIza" + "a" * 35,
        "hf_" + "a" * 34,
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk",
    ],
)
def test_known_secret_forms_are_redacted(secret: str) -> None:
    redacted = redact(f"before {secret}", {})
    assert redacted.startswith("before [redacted ")
    assert secret[12:] not in redacted


def test_bearer_tokens_and_passwords_in_urls_are_redacted() -> None:
    assert (
        redact("Authorization: Bearer abcdef0123456789abcdef", {}) == "Authorization: Bearer [redacted token]"
    )
    assert redact("postgres://me:letmein99@db/x", {}) == "postgres://me:[redacted password]@db/x"


@pytest.mark.parametrize(
    "text",
    [
        "a task-list-of-many-words-and-more",
        "sk-learn-contrib-and-friends-of-it",
        "http://localhost:8080/a@b",
        "the bearer of news",
        "ASIAN FOOD",
        "AKIA is short",
        "key=value token=none",
    ],
)
def test_ordinary_words_are_not_redacted(text: str) -> None:
    assert redact(text, {}) == text


@pytest.mark.parametrize(
    "piece",
    [
        "x",
        "-----BEGIN PRIVATE KEY-----\n",
        "sk-",
        "eyJ",
        "a://b:",
        "bearer ",
        "ghp_",
        "eyJaaaaaaaa.",
        "-",
        "\x1b",
    ],
)
def test_redaction_of_a_megabyte_is_fast(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    with within(2):
        redact(neutralise(text), ENVIRON)


@given(st.text(), st.integers(0, 200), st.sampled_from(["", "artifacts/x.txt"]))
def test_cut_stays_within_its_limit(text: str, limit: int, where: str) -> None:
    shortened = cut(text, limit, where)
    assert len(shortened) <= max(limit, 0)
    if len(text) <= limit:
        assert shortened == text


def test_cut_prefers_the_tail_and_names_the_whole() -> None:
    text = "".join(f"{number:05}\n" for number in range(1_000))
    shortened = cut(text, 500, "artifacts/x.txt")
    head, mark, tail = (
        shortened.partition("\n[… ")[0],
        shortened.split("[… ")[1].split(" …]")[0],
        shortened.split(" …]\n")[1],
    )
    assert text.startswith(head)
    assert text.endswith(tail)
    assert mark == f"{len(text) - len(head) - len(tail)} characters cut; whole in artifacts/x.txt"
    assert len(tail) > 1.9 * len(head)
    first, last = cut(text, 500, "x", head=2 / 3).split("\n[… ")
    assert len(first) > 1.9 * len(last.split(" …]\n")[1])
