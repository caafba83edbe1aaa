#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The memory bounds of lm-preprocess(1), by the kernel's peak of resident memory: long lines, many of them at once, one giant
# line, decoders with large windows, long lines under train-tokenizer.
# timeout: 240
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

python3 - <<'PY'
import json, lzma, os, random, resource, shutil, subprocess, sys

MIB = 1 << 20
rng = random.Random(3)
words = ["of", "the", "attention", "field", "1984", "naïve", "water;", "over", "a", "is"]
text = " ".join(rng.choice(words) for _ in range(200000))

def long_lines(name, one, n):
    with open(name, "w") as out:
        for _ in range(n):
            out.write('{"text":"%s"}\n' % one)

def resident(*arguments):  # MiB, of a process that is the only child of its parent
    code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]);"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-c", code, "lm-preprocess", *arguments, "--quiet", "--force"],
                          stdout=subprocess.PIPE, text=True, check=True)
    return int(done.stdout) // 1024

def check(what, most, *arguments):
    got = resident(*arguments)
    print(f"{what}: {got} MiB, at most {most}")
    assert got <= most, what

encode = ("--output-prefix", "out", "--workers")
long_lines("ordinary.jsonl", text[:2000], 20000)
long_lines("long.jsonl", (text * 16)[:15_000_000], 16)
long_lines("private.jsonl", "\ue000" * 5_000_000, 16)  # one token a byte

# A tokenizer whose ids take 32 bits.
subprocess.run(["lm-preprocess", "train-tokenizer", "--vocab-size", "280", "--output", "wide", "--input", "ordinary.jsonl",
                "--quiet"], check=True)
lm = json.load(open("wide/tokenizer.json"))
lm["model"]["vocab"]["far"] = 70000
json.dump(lm, open("wide/tokenizer.json", "w"))

# Sixteen workers: 1 GiB for any lines, plus the allowance of one document over the budget.
for name in "ordinary", "long", "private":
    check(f"{name}, 16 workers", 1024, *encode, "16", "--input", f"{name}.jsonl")
    check(f"{name}, 1 worker", 256, *encode, "1", "--input", f"{name}.jsonl")

# One giant line needs its own size, and the same size again for a normalizer. Its ids, also those of 32 bits, are not kept in
# memory.
lm = json.load(open("wide/tokenizer.json"))
lm["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}
os.mkdir("normal")
json.dump(lm, open("normal/tokenizer.json", "w"))
giant = 100_000_000
base = 100
for name, one in ("words", (text * 100)[:giant]), ("private", "\ue000" * (giant // 3)), ("spaces", " " * giant):
    long_lines("giant.jsonl", one, 1)
    run = (*encode, "1", "--input", "giant.jsonl")
    check(f"giant of {name}", base + giant // MIB, *run)
    check(f"giant of {name}, 32 bits", base + giant // MIB, *run, "--tokenizer-model", "wide")
    check(f"giant of {name}, normalized", base + 2 * giant // MIB, *run, "--tokenizer-model", "normal")
# Lines with more than a text; lines with bytes to replace.
words = (text * 100)[:giant].encode()
for what, begin, more, most in (("giant beside another member", b'{"id":1,"text":"', (), 2),
                                ("giant beside NaN", b'{"score":NaN,"text":"', (), 2),
                                ("giant with a bad byte", b'{"text":"\xff\\n', ("--on-bad-line", "replace"), 3)):
    with open("giant.jsonl", "wb") as out:
        out.write(begin + words + b'"}\n')
    check(what, base + most * giant // MIB, *encode, "1", "--input", "giant.jsonl", *more)
    check(f"{what}, normalized", base + (most + 1) * giant // MIB, *encode, "1", "--input", "giant.jsonl", *more,
          "--tokenizer-model", "normal")
os.remove("giant.jsonl")

# Sixteen windows of 64 MiB and more.
os.mkdir("xz")
os.mkdir("zst")
dictionary = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 64 * MIB}]
sample = open("ordinary.jsonl", "rb").read() * 2
packed = lzma.compress(sample, check=lzma.CHECK_CRC32, filters=dictionary)
for i in range(16):
    open(f"xz/{i}.xz", "wb").write(packed)
check("xz, 16 dictionaries of 64 MiB", 1024, *encode, "16", "--input", "xz")
if shutil.which("zstd"):
    packed = subprocess.run(["zstd", "-1", "--long=27", "-c"], input=sample, stdout=subprocess.PIPE, check=True,
                            stderr=subprocess.DEVNULL).stdout
    for i in range(16):
        open(f"zst/{i}.zst", "wb").write(packed)
    check("zstd, 16 windows of 128 MiB", 1024, *encode, "16", "--input", "zst")
else:
    print("skipped: zstd: not installed")

# The rounds of train-tokenizer are bounded by bytes, not by chunks.
check("train-tokenizer, long lines", 512, "train-tokenizer", "--vocab-size", "300", "--output", "tokenizer", "--workers", "1",
      "--input", "long.jsonl")
PY
echo ok
