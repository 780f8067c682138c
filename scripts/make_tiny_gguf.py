"""Make a tiny llama model with random weights, for tests: python scripts/make_tiny_gguf.py OUT.gguf [SEED]

It writes nonsense, quickly and always the same, so that what comes out well is the grammar's merit. Its
vocabulary has every byte, every printable ASCII character, and pieces that are hard on a grammar: several
marks of JSON in one token, blanks, letters of other scripts. Needs gguf and numpy; the file is below 2 MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 32, 4, 1, 64, 4096
PIECES = [
    '{"',
    '":',
    '": "',
    '",',
    '"}',
    '"]',
    "}}",
    "]}",
    "[{",
    "\\n",
    '\\"',
    "\n\n",
    "▁▁",
    "▁the",
    "▁of",
    "ing",
]
PIECES += [
    "true",
    "null",
    "false",
    "é",
    "日本",
    "😀",
    "\t",
    "\x7f",
    "12",
    "-1",
    "0.",
    "e5",
    "\\u",
    "},{",
    '":{"',
    "','",
]
CHAT = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}</s>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def make(path: Path, seed: int = 0, chat_template: str = CHAT) -> None:
    """Write the model to `path`."""
    import gguf
    import numpy as np

    kinds = gguf.TokenType
    vocabulary = [("<unk>", kinds.UNKNOWN), ("<s>", kinds.CONTROL), ("</s>", kinds.CONTROL)]
    vocabulary += [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    vocabulary += [(chr(code) if code != 32 else "▁", kinds.NORMAL) for code in range(32, 127)]
    vocabulary += [(piece, kinds.NORMAL) for piece in PIECES]

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(vocabulary))
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text.encode() for text, _ in vocabulary])
    writer.add_token_scores([-float(number) for number in range(len(vocabulary))])
    writer.add_token_types([int(kind) for _, kind in vocabulary])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if chat_template:
        writer.add_chat_template(chat_template)

    random = np.random.default_rng(seed)

    def weights(name: str, *shape: int) -> None:
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.5, shape).astype(np.float32))

    weights("token_embd", len(vocabulary), WIDTH)
    weights("output", len(vocabulary), WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, np.float32))
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights(f"blk.{layer}.{name}", WIDTH, WIDTH)
        weights(f"blk.{layer}.ffn_gate", INNER, WIDTH)
        weights(f"blk.{layer}.ffn_up", INNER, WIDTH)
        weights(f"blk.{layer}.ffn_down", WIDTH, INNER)
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(WIDTH, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
