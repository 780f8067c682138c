"""Writes the vectors that sentence-transformers gives for a few texts: what minilm in numpy is held equal to.

Run by hand, in an environment with sentence-transformers and the weights:
`python scripts/make_golden_vectors.py`. The tests compare with the file wherever the weights are.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
GOLDEN = HERE / "tests" / "golden" / "minilm.json"
TEXTS = [
    "",
    "count the lines in notes.md",
    "How many lines has notes.md?",
    "A store sells 12 apples at $3.50 each; how much do 7 cost?",
    "Ça coûte 3 € — naïve café, STRASSE und Straße",
    "你好，世界。数一数文件里的行",
    "😀 🏳️‍🌈 zero\u200bwidth, tab\tand\nline",
    "mit Zahlen 1,234,567.89 und 2025-03-01",
    "long " * 400,
]


def main() -> int:
    """Write the file; says with which versions."""
    sys.path.insert(0, str(HERE))
    import sentence_transformers
    import torch

    from runtime.memory.embed.weights import find

    found = find()
    assert found, "the weights are not here: fractal doctor --fetch"
    model = sentence_transformers.SentenceTransformer(str(found.folder), device="cpu")
    rows = model.encode(TEXTS)
    told = {
        "made by": f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}",
        "vectors": [
            {"text": text, "float32": base64.b64encode(row.astype("<f4").tobytes()).decode()}
            for text, row in zip(TEXTS, rows, strict=True)
        ],
    }
    GOLDEN.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
