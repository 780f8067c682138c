"""`requirements.lock` and the metadata fit the project."""

from __future__ import annotations

import re
import tomllib

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_repository import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def direct() -> list[Requirement]:
    """The requirements of the package and of its extras for development."""
    extras = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *extras["dev"]]
    own = next(each for each in map(Requirement, named) if each.name == PROJECT["name"])
    named += [each for extra in own.extras for each in extras[extra]]
    return [each for each in map(Requirement, named) if each.name != own.name]


def test_lock_has_every_requirement_with_hashes():
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.M))
    stale = [
        str(each)
        for each in direct()
        if not each.specifier.contains(pins.get(canonicalize_name(each.name), "0"))
    ]
    assert stale == [], "make lock"
    entries = re.split(r"(?m)^(?=\w)", LOCK)[1:]
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []


def test_lock_names_no_registry():
    assert "://" not in LOCK


def test_citation_has_the_version_of_the_project():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])
