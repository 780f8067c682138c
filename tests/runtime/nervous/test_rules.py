"""Rules are markdown: a workspace adds its own, replaces some, switches some off; broken ones are told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernel.errors import ConfigurationError
from runtime.fractal import shipped_system
from runtime.nervous.guard import Guard
from runtime.nervous.rules import rules_of

OWN = """# Danger rules

## stage-only (serious)

Goes to production.

```yaml
- call: deploy
  any: [--production]
```
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    folder = tmp_path / "own" / "system"
    folder.mkdir(parents=True)
    return folder


def guard(own: Path, text: str) -> Guard:
    (own / "dangers.md").write_text(text, "utf-8")
    return Guard([own, shipped_system()], own.parent)


def names(guard: Guard, command: str) -> set[str]:
    return {danger.rule for danger in guard.command(command)}


def test_the_shipped_rules_each_say_why() -> None:
    rules = rules_of([shipped_system()]).rules
    assert len(rules) > 20
    assert [rule.name for rule in rules.values() if len(rule.why) < 10 or not rule.matchers] == []


def test_a_workspace_adds_a_rule(own: Path) -> None:
    found = guard(own, OWN)
    assert names(found, "deploy --production") == {"stage-only"}
    assert names(found, "deploy --staging") == set()
    assert names(found, "rm -rf ~")  # the shipped ones stay
    danger = found.command("deploy --production app")[0]
    assert str(danger) == "serious: stage-only, Goes to production (deploy --production app)"


def test_a_rule_of_the_same_name_takes_the_place_of_the_shipped_one(own: Path) -> None:
    text = "## force-push (serious)\n\nMain is sacred.\n\n```yaml\n- call: git push\n  any: [--mirror]\n```\n"
    found = guard(own, text)
    assert names(found, "git push --force") == set()
    (danger,) = found.command("git push --mirror")
    assert (danger.severity, danger.why) == ("serious", "Main is sacred (git push --mirror)")


def test_off_switches_a_rule_off_and_no_other(own: Path) -> None:
    found = guard(own, "## force-push (off)\n")
    assert names(found, "git push --force") == set()
    assert names(found, "git reset --hard") == {"rewrite-history"}


def test_paths_of_a_workspace_are_added(own: Path) -> None:
    assert names(guard(own, ""), "cat vault.key") == set()
    found = guard(own, "## Paths\n\n```yaml\ncredentials: ['*.key']\n```\n")
    assert names(found, "cat keys/vault.key") == {"credentials"}
    assert names(found, "cat ~/.ssh/id_rsa") == {"credentials"}


def test_a_changed_file_counts_at_once(own: Path) -> None:
    found = guard(own, "")
    assert names(found, "git push --force") == {"force-push"}
    (own / "dangers.md").write_text("## force-push (off)\n")
    os.utime(own / "dangers.md", ns=(1, 1))
    assert names(found, "git push --force") == set()
    (own / "dangers.md").unlink()
    assert names(found, "git push --force") == {"force-push"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("## Force Push (danger)\n", 1, "is no `## name"),
        ("# Rules\n\n## a (deadly)\n", 3, "is no `## name"),
        ("## a (danger)\n\n```yaml\n- call: x\n```\n", 1, "sentence"),
        ("## a (danger)\n\nWhy.\n", 1, "list of what matches"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- call: [x\n```\n", 7, "not YAML"),
        ("## a (danger)\n\nWhy.\n\n```yaml\ncall: x\n```\n", 1, "a list is needed"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- calls: x\n```\n", 1, "calls is none of"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- just text\n```\n", 1, "no mapping"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- call: x\n  argument: '('\n```\n", 1, "argument"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- path: [outsid]\n  call: x\n```\n", 1, "outsid is none of"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- finding: nothing\n```\n", 1, "nothing is none of"),
        (
            "## a (danger)\n\nWhy.\n\n```yaml\n- call: x\n  option: {-o: [nowhere]}\n```\n",
            1,
            "nowhere is none of",
        ),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- call: x\n  option: [-o]\n```\n", 1, "option"),
        ("## a (danger)\n\nWhy.\n\n```yaml\n- any: [-f]\n```\n", 1, "would match nothing"),
        ("## Paths\n\n```yaml\ncredentials: '*.key'\n```\n", 1, "credentials"),
        ("## Paths\n\n```yaml\nsecrets: ['*.key']\n```\n", 1, "secrets is none of"),
    ],
)
def test_a_rule_that_cannot_be_read_is_refused_with_its_place(
    own: Path, text: str, line: int, said: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        guard(own, text).command("ls")
    assert said in str(caught.value)
    assert str(caught.value).startswith(f"{own / 'dangers.md'}:{line}: ")


def test_rules_that_are_no_text_are_refused(own: Path) -> None:
    (own / "dangers.md").write_bytes(b"\xff\xfe## a")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Guard([own], own).command("ls")
