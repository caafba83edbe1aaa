#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed of GPT-2's tokenizer in Hugging Face tokenizers and tiktoken, one thread: one JSON object each on stdout.

tokenizer_speed.py CORPUS.jsonl VOCAB.json MERGES.txt; only the encoding is timed, not the reading of JSON, which is in favour
of these two: lm-preprocess is timed with reading and writing.
"""
import importlib.metadata
import json
import os
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tiktoken
import tokenizers

corpus, vocab, merges = sys.argv[1:4]
texts = [json.loads(line)["text"] for line in open(corpus, encoding="utf-8")]
n_bytes = sum(len(t.encode()) for t in texts)


def report(name, encode):
    encode(texts[:20])
    wall, cpu = [], []
    for _ in range(2):
        start = time.perf_counter(), time.process_time()
        n_tokens = encode(texts)
        wall.append(time.perf_counter() - start[0])
        cpu.append(time.process_time() - start[1])
    speed = {key: round(n_bytes / 1e6 / min(seconds), 2) for key, seconds in (("mb_per_s", wall), ("mb_per_cpu_s", cpu))}
    print(json.dumps({"tool": name, **speed, "tokens": n_tokens}), flush=True)


def openai():
    """tiktoken with the same tables: its ranks are GPT-2's ids, its tokens bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    bytes_of = {chr(b): b for b in printable}
    bytes_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in set(printable))})
    ids = json.load(open(vocab, encoding="utf-8"))
    ranks = {bytes(bytes_of[c] for c in token): i for token, i in ids.items() if token != "<|endoftext|>"}
    pattern = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})


face = tokenizers.ByteLevelBPETokenizer(vocab, merges)
report(f"Hugging Face tokenizers {tokenizers.__version__}", lambda docs: sum(len(face.encode(t).ids) for t in docs))
tik = openai()
report(f"tiktoken {importlib.metadata.version('tiktoken')}", lambda docs: sum(len(tik.encode_ordinary(t)) for t in docs))
