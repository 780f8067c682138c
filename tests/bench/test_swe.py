"""The bench of real fixes: its data, its made jobs, its proxy, and two harnesses on a tiny fix."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.peers.server import Reply, Scripted
from bench.swe import fixes, made, understanding
from bench.swe.comparison import Chosen, measure, missed, play_all, sums, table
from bench.swe.fixes import Fix, Source
from bench.swe.job import SETS
from bench.swe.proxy import CountingProxy, Counts, canonical, written
from kernel.errors import UsageError

# ---- data ------------------------------------------------------------------------------------------------


def test_the_data_has_fixes_of_many_repositories_and_six_for_acceptance():
    listed = fixes.read()
    assert len(listed) == len({each.name for each in listed}) >= 20
    assert len({each.repository for each in listed}) >= 5
    assert [each.set for each in listed].count("acceptance") == 6
    assert {each.set for each in listed} <= set(SETS)


@pytest.mark.parametrize("fix", fixes.read(), ids=lambda fix: fix.name)
def test_a_fix_is_told_whole(fix: Fix):
    assert re.fullmatch(r"[0-9a-f]{40}", fix.commit)
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", fix.repository)
    assert any(name.endswith(".py") for name in fix.tests)
    assert len(fix.task) > 200 and fix.commit[:7] not in fix.task


def test_an_unknown_field_of_the_data_is_refused(tmp_path: Path):
    (tmp_path / "fixes.yaml").write_text("- {name: a, colour: red}\n")
    with pytest.raises(UsageError, match="colour"):
        fixes.read(tmp_path / "fixes.yaml")


@pytest.mark.parametrize("job", made.listed(), ids=lambda job: job.name)
def test_the_check_of_a_made_job_tells_its_solution_from_nothing(job: Any, tmp_path: Path):
    made.create(job, tmp_path)
    with pytest.raises(FileNotFoundError):
        job.check(tmp_path, "")
    assert job.check(tmp_path, job.solution(tmp_path))


def test_made_jobs_are_the_same_each_time_and_as_large_as_promised():
    first, again = made.listed(), made.listed()
    assert [(job.task, job.files, job.pages) for job in first] == [
        (job.task, job.files, job.pages) for job in again
    ]
    by_name = {job.name: job for job in first}
    assert len(by_name["thirty-pages"].pages) == 30
    assert len(by_name["long-log"].files["service.log"]) > 2 * 2**20
    assert [job.name for job in first if job.reply] == ["one-question"]


# ---- counting --------------------------------------------------------------------------------------------


def _body(*texts: str, **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text} for text in texts], **more}


def test_fresh_tokens_are_those_behind_the_common_prefix_with_the_request_before():
    counts = Counts()
    first, second = canonical(_body("a" * 400)), canonical(_body("a" * 400, "b" * 200))
    counts.add(first, 3)
    counts.add(second, 4)
    counts.add(canonical(_body("c" * 400)), 0)
    assert (counts.calls, counts.completion) == (3, 7)
    assert counts.prompt == len(first) // 4 + len(second) // 4 + len(first) // 4
    other = len(first) - len('{"content":"')  # the third request differs from there on
    assert counts.fresh == len(first) // 4 + (len(second) - len(first)) // 4 + other // 4
    assert counts.largest == len(second) // 4


def test_a_mark_for_a_cache_changes_no_prompt():
    text = {"type": "text", "text": "hello"}
    plain = {"messages": [{"role": "user", "content": [text]}]}
    marked = {"messages": [{"role": "user", "content": [{**text, "cache_control": {"type": "ephemeral"}}]}]}
    assert canonical(plain) == canonical(marked)


def _ask(url: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{url}/chat/completions", json=body, trust_env=False)


@pytest.mark.parametrize("stream", [False, True])
def test_the_proxy_passes_answers_on_and_counts_them(stream: bool):
    with Scripted().running() as server:
        proxy = CountingProxy(server.play("job", ["four", ("bash", {"command": "ls"})]))
        with proxy.running():
            url = proxy.url("job")
            answers = [_ask(url, _body("hello", stream=stream)) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert written(answers[0].content) == 1
    counts = proxy.jobs["job"]
    assert (counts.calls, counts.refused, counts.failed) == (2, 0, 0)
    assert counts.fresh == counts.prompt // 2  # the second request is the first one again
    assert counts.completion == 1 + -(-len('bash{"command": "ls"}') // 4)


def test_a_request_above_the_window_is_refused_as_servers_do():
    with Scripted().running() as server:
        proxy = CountingProxy(server.play("job", ["fine"]), window=100)
        with proxy.running():
            url = proxy.url("job")
            refused = _ask(url, _body("x" * 300, max_tokens=50))
            taken = _ask(url, _body("x" * 100, max_tokens=50))
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "context_length_exceeded"
    assert taken.status_code == 200
    assert (proxy.jobs["job"].calls, proxy.jobs["job"].refused) == (1, 1)


# ---- a tiny fix, start to end ----------------------------------------------------------------------------

BROKEN, MENDED = "def add(a, b):\n    return a - b\n", "def add(a, b):\n    return a + b\n"
TEST = "from sums import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
FIX = Fix("add", "tuning", "me/sums", "main", ["test_sums.py"], "sums.add subtracts. It should add. " * 8)
EDIT = {"path": "sums.py", "old": "a - b", "new": "a + b"}
PLAIN: Sequence[Reply] = [("bash", {"command": "sed -i 's/a - b/a + b/' sums.py; pytest -q"}), "add adds now"]
FALSE: Sequence[Reply] = ["add adds now"]
FRACTAL: Sequence[Reply] = [
    json.dumps(
        {
            "task": "sums.add adds",
            "approach": "edit",
            "confidence": "high",
            "success": [{"file": "sums.py", "has": r"a \+ b"}],
            "steps": [{"tool": "edit", "args": EDIT}],
        }
    )
]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """A repository of two commits, and an environment with pytest for its tests."""
    root = tmp_path_factory.mktemp("swe")
    own = root / "me+sums"
    own.mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q", "-b", "main"], cwd=own, check=True)
    for text, test in ((BROKEN, ""), (MENDED, TEST)):
        (own / "sums.py").write_text(text)
        (own / "test_sums.py").write_text(test)
        subprocess.run([*git, "add", "-A"], cwd=own, check=True)
        subprocess.run([*git, "commit", "-qm", "change"], cwd=own, check=True)
    environment = root / "environments" / "swe-jobs"
    venv.create(environment, symlinks=True)
    packages = next(environment.glob("lib/python*/site-packages"))
    for name in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py"):
        found = importlib.util.find_spec(name)
        assert found and found.origin
        place = Path(found.origin).parent if found.submodule_search_locations else Path(found.origin)
        (packages / place.name).symlink_to(place)
    (environment / "packages.txt").write_text("pytest")
    return Source(root, fixes.tests_python(root / "environments", ["pytest"]))


@pytest.mark.night
def test_a_fix_is_valid_if_its_tests_fail_before_it_and_pass_after(source: Source):
    (row,) = fixes.verify(source, [FIX])
    assert row["valid"], row
    (same,) = fixes.verify(source, [Fix(**{**vars(FIX), "tests": ["sums.py"]})])
    assert not same["valid"]


def test_a_missing_repository_is_named_with_the_command_that_brings_it(source: Source):
    with pytest.raises(UsageError, match=r"git clone --bare https://github.com/you/none .*you\+none.git"):
        list(fixes.verify(source, [Fix(**{**vars(FIX), "repository": "you/none"})]))


def _play(source: Source, harness: str, script: Sequence[Reply], work: Path | None = None) -> dict[str, Any]:
    with Scripted().running() as server:
        chosen = Chosen("m", server.play("job", script), harnesses=[harness], work=work, seconds=120)
        (row,) = play_all(chosen, [source.job(FIX)])
    return row


def test_the_first_message_of_a_fix_is_measured_without_a_model(source: Source, tmp_path: Path):
    fix = Fix(**{**vars(FIX), "task": "sums.add subtracts. It should add; see `add`."})
    row = understanding.row_of(source, fix, tmp_path)
    assert (row["functions"], row["missing"], row["tests"]) == (1, [], 1)
    assert row["declared"] < row["tokens"] < 1_500
    assert "2\t    return a - b" in (tmp_path / "add.md").read_text()


@pytest.mark.night
def test_the_plain_loop_does_a_fix(source: Source, tmp_path: Path):
    row = _play(source, "plain", PLAIN, tmp_path)
    assert (row["done"], row["status"], row["calls"], row["proof"]) == (True, "answered", 2, False), row
    assert 0 < row["fresh"] < row["prompt"]
    work = tmp_path / "plain-add"
    assert not (work / "fractal.yaml").exists()
    log = subprocess.run(["git", "log", "--oneline"], cwd=work, capture_output=True, text=True).stdout
    assert len(log.splitlines()) == 1


@pytest.mark.night
def test_a_claim_that_the_hidden_tests_refuse_is_a_false_one(source: Source):
    row = _play(source, "plain", FALSE)
    assert (row["done"], row["claims"], row["false"]) == (False, True, True)


def test_fractal_does_a_fix_and_its_proof_is_seen(source: Source):
    row = _play(source, "fractal", FRACTAL)
    assert (row["done"], row["status"], row["proof"]) == (True, "complete", True), row
    assert row["calls"] >= 1 and row["prompt"] > 0


@pytest.mark.night
def test_a_question_of_fractal_is_answered_by_the_bench(tmp_path: Path):
    (job,) = (each for each in made.listed() if each.reply)
    job.solution(tmp_path)
    text = (tmp_path / "prices.csv").read_text()
    script: Sequence[Reply] = [
        json.dumps({"calls": [{"tool": "ask", "args": {"question": "Which branch is right?"}}]}),
        json.dumps({"calls": [{"tool": "write", "args": {"path": "prices.csv", "content": text}}]}),
        json.dumps({"done": "merged"}),
        json.dumps({"done": "merged"}),  # it was held back once, as no check shows it
    ]
    with Scripted().running() as server:
        chosen = Chosen("m", server.play("job", script), harnesses=["fractal"], seconds=120)
        (row,) = play_all(chosen, [each for each in made.jobs() if each.reply])
    assert row["done"] and not row["false"], row


def test_a_job_of_another_set_is_refused():
    with pytest.raises(UsageError, match="no job from-template in tuning"):
        measure(model="m", api_base="http://127.0.0.1:9/v1", sets=["tuning"], jobs="from-template")


@pytest.mark.night
def test_recorded_jobs_are_not_done_again_and_mini_is_skipped_with_a_word(tmp_path: Path, capsys: Any):
    results = tmp_path / "rows.jsonl"
    with Scripted().running() as server:
        answer = "I cannot ask, so nothing is written."
        asked = {"model": "m", "sets": ["made"], "jobs": "from-template", "results": results}
        url = server.play("job", [answer])
        first = measure(api_base=url, harnesses=["plain", "mini"], **asked)
        again = measure(api_base=url, harnesses=["plain"], **asked)
        assert server.requests["job"] == 1
    assert "mini is skipped" in capsys.readouterr().err
    assert len(first["rows"]) == 1 and again["rows"] == first["rows"]
    assert again["sums"]["made"]["plain"]["false"] == 1
    assert "from-template" in table(again)


@pytest.mark.night
def test_a_server_that_answers_nothing_ends_the_bench(source: Source):
    chosen = Chosen("m", "http://127.0.0.1:9/v1", harnesses=["plain"], seconds=60)
    with pytest.raises(UsageError, match="answered no request of plain"):
        list(play_all(chosen, [source.job(FIX)]))


def test_goals_against_a_peer_count_where_both_did_the_same_jobs():
    row = {"set": "tuning", "job": "a", "done": True, "proof": False, "false": False, "claims": True}
    costs = {"calls": 10, "prompt": 100, "fresh": 50, "completion": 5, "seconds": 1.0}
    own, peer = {**row, **costs, "harness": "fractal"}, {**row, **costs, "harness": "mini"}
    found = missed({"rows": [own, peer], "sums": sums([own, peer])})
    assert [each.split()[1] for each in found] == ["0", "calls", "fresh"]
    other = {**peer, "job": "b"}
    assert len(missed({"rows": [own, other], "sums": sums([own, other])})) == 1
