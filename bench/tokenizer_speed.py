#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures GPT-2's tokenizer in lm-preprocess and its peers (gigatoken, tiktoken, Hugging Face tokenizers), with one thread and
with two. Prints a Markdown table per corpus. Different token counts are an error, exit code 1.

tokenizer_speed.py LM_PREPROCESS TABLES ROUNDS CORPUS.jsonl...; TABLES has GPT-2's vocab.json and merges.txt.

The whole of lm-preprocess is timed, from JSON Lines to .bin and .idx, start-up included. For the peers only the encoding is timed: of text
in memory, or, for gigatoken's fastest way, of one text file with a separator between documents. A peer that this Python lacks is
skipped, with a line on stderr. FIGURES in the environment names a file to which the rates are appended as JSON lines (figures.py).
"""
import collections
import importlib.metadata
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

import figures as records

PEERS = {"gigatoken": "gigatoken", "tiktoken": "tiktoken", "tokenizers": "Hugging Face tokenizers"}
NEEDS = {"gigatoken": ("gigatoken", "tokenizers"), "tiktoken": ("tiktoken",), "tokenizers": ("tokenizers",)}
THREADS = (1, 2)
BATCH = 1000  # documents at a time; bounds the memory of the peers' results
SEPARATOR = "\x00\x01end of document\x01\x00"
PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""

Figures = collections.namedtuple("Figures", "wall user system")


def texts_of(corpus):
    with open(corpus, encoding="utf-8") as lines:
        return [json.loads(line)["text"] for line in lines]


def batches(texts):
    return (texts[i:i + BATCH] for i in range(0, len(texts), BATCH))


def gigatoken(tables, corpus, folder, threads):
    import awkward
    import gigatoken as library
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.BPE.from_file(os.path.join(tables, "vocab.json"), os.path.join(tables, "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    model, source = os.path.join(folder, "tokenizer.json"), os.path.join(folder, "documents.txt")
    tokenizer.save(model)
    with open(source, "w", encoding="utf-8", newline="") as out:
        for text in texts_of(corpus):
            if SEPARATOR in text:
                sys.exit(f"tokenizer_speed.py: {corpus}: a document has the separator that is given to gigatoken")
            out.write(text + SEPARATOR)
    fast = library.Tokenizer(model)
    files = library.TextFileSource([source], separator=SEPARATOR.encode())
    return (lambda: fast.encode_files(files, parallel=threads > 1)), (lambda rows: int(awkward.count(rows)))


def tiktoken(tables, corpus, folder, threads):
    """Builds tiktoken's encoding from the same tables: its ranks are GPT-2's ids, its tokens bytes."""
    import tiktoken as library

    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    bytes_of = {chr(b): b for b in printable}
    bytes_of.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in set(printable))})
    with open(os.path.join(tables, "vocab.json"), encoding="utf-8") as file:
        ids = json.load(file)
    ranks = {bytes(bytes_of[c] for c in token): i for token, i in ids.items() if token != "<|endoftext|>"}
    encoding = library.Encoding("gpt2", pat_str=PATTERN, mergeable_ranks=ranks, special_tokens={})
    texts = texts_of(corpus)
    if threads == 1:
        return (lambda: sum(len(encoding.encode_ordinary(text)) for text in texts)), int
    return (lambda: sum(sum(map(len, encoding.encode_ordinary_batch(batch, num_threads=threads))) for batch in batches(texts))), int


def tokenizers(tables, corpus, folder, threads):
    import tokenizers as library

    tokenizer = library.ByteLevelBPETokenizer(os.path.join(tables, "vocab.json"), os.path.join(tables, "merges.txt"))._tokenizer
    encode_batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)  # no offsets; since 0.20
    texts = texts_of(corpus)
    return (lambda: sum(sum(len(e.ids) for e in encode_batch(batch)) for batch in batches(texts))), int


def time_peer(name, tables, corpus, folder, threads):
    """Runs a peer in a separate process, because these libraries choose their threads once."""
    encode, count = globals()[name](tables, corpus, folder, threads)
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = encode()
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"figures": [wall, after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime], "tokens": count(result)}))


def run_peer(name, tables, corpus, folder, threads):
    environment = {**os.environ, "RAYON_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false"}
    command = [sys.executable, os.path.abspath(__file__), "--peer", name, tables, corpus, folder, str(threads)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    answer = json.loads(done.stdout)
    return Figures(*answer["figures"]), answer["tokens"]


def run_ours(tool, tables, corpus, folder, threads):
    prefix = os.path.join(folder, "out")
    start = time.perf_counter()
    process = subprocess.Popen([tool, "--input", corpus, "--output-prefix", prefix, "--vocab-file", os.path.join(tables, "vocab.json"),
                                "--merge-file", os.path.join(tables, "merges.txt"), "--workers", str(threads), "--force", "--quiet"])
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"tokenizer_speed.py: {tool} ended with {process.returncode}")
    return Figures(wall, used.ru_utime, used.ru_stime), os.path.getsize(prefix + "_text_document.bin") // 2


def lacking(name):
    """Returns the first required package of a peer that this Python lacks, or None."""
    return next((package for package in NEEDS[name] if not importlib.util.find_spec(package)), None)


def title(tool, threads):
    if tool not in PEERS:
        return "lm-preprocess, 1 worker" if threads == 1 else f"lm-preprocess, {threads} workers"
    return f"{PEERS[tool]} {importlib.metadata.version(tool)}, {'one thread' if threads == 1 else f'{threads} threads'}"


def measure(tool, tables, rounds, corpus):
    """Runs the tools in alternation. Returns {tool and threads: minimum of each figure}, and the token counts."""
    best, counts = {}, {}
    installed = [name for name in PEERS if not lacking(name)]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for name in [tool, *installed]:
                for threads in THREADS:
                    run = run_peer if name in PEERS else run_ours
                    figures, n_tokens = run(name, tables, corpus, folder, threads)
                    key = title(name, threads)
                    best[key] = Figures(*map(min, figures, best.get(key, figures)))
                    counts.setdefault(n_tokens, key)
    return best, counts


def print_table(corpus, best, rounds, n_tokens):
    n_bytes = sum(len(text.encode()) for text in texts_of(corpus))
    print(f"\n{os.path.basename(corpus)}, {n_bytes / 1e6:.0f} MB of text, {n_tokens:,} tokens by every tool; the least of {rounds} runs:\n")
    print("| | wall, s | user, s | system, s | MB/s of wall time | MB/s of user and system time |\n|---|---|---|---|---|---|")
    for name, (wall, user, system) in best.items():
        print(f"| {name} | {wall:.2f} | {user:.2f} | {system:.2f} | {n_bytes / 1e6 / wall:.1f} | {n_bytes / 1e6 / (user + system):.1f} |")
        if os.environ.get("FIGURES"):
            records.append(os.environ["FIGURES"], f"{os.path.basename(corpus)}: {name}", round(n_bytes / 1e6 / wall, 1), "MB/s")


def main():
    tool, tables, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
    for name, what in PEERS.items():
        if lacking(name):
            print(f"tokenizer_speed.py: skipped: {what}: {sys.executable} has no {lacking(name)}: pip install {lacking(name)}", file=sys.stderr)
    for corpus in sys.argv[4:]:
        best, counts = measure(tool, tables, rounds, corpus)
        if len(counts) > 1:
            sys.exit(f"tokenizer_speed.py: {corpus}: token counts differ: " + ", ".join(f"{who} {n}" for n, who in counts.items()))
        print_table(corpus, best, rounds, next(iter(counts)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peer"]:
        time_peer(*sys.argv[2:6], int(sys.argv[6]))
    else:
        main()
