#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-preprocess under limits: too few processes for its threads, names that are not UTF-8.
here=$(realpath "$(dirname "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
lm=$bin/lm-preprocess
make_corpus a.jsonl 20000
gzip -k a.jsonl

# Runs as an unused user with at most 20 processes, because this limit does not bind root.
user=$((20000 + $$ % 40000))
poor() { (ulimit -u 20 && exec setpriv --reuid=$user --clear-groups "$@"); }
chmod 777 "$work"
if [ "$(id -u)" = 0 ] && poor test -x "$lm" 2> /dev/null && poor test -w "$work" && poor "$lm" --version > /dev/null; then
    refused="thread: .*ulimit -u .*--workers"
    for input in a.jsonl a.jsonl.gz; do
        expect 3 "$refused" poor "$lm" --input $input --output-prefix poor --workers 64 --tokenizer-type ByteTokenizer
        nothing_under poor
    done
    expect 3 "$refused" poor "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --output poor --workers 64
    nothing_under poor
    expect 0 '' poor "$lm" --input a.jsonl --output-prefix poor --workers 4 --tokenizer-type ByteTokenizer
else
    echo "skipped: limits on processes: not as root, or without setpriv"
fi

# File names may contain any bytes; JSON has U+FFFD for the invalid ones.
odd=$'name\xff'
mkdir "$odd"
cp a.jsonl "$odd/in.jsonl"
prefix=$odd/out
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$prefix" --json --tokenizer-type ByteTokenizer --resume
python3 -c 'import json; assert json.load(open("out"))["prefixes"] == ["name\ufffd/out_text_document"]'
expect 0 'note: .*complete' "$lm" --input "$odd/in.jsonl" --output-prefix "$prefix" --tokenizer-type ByteTokenizer --resume
for verb in info verify; do
    expect 0 '' "$lm" $verb "${prefix}_text_document" --json
    python3 -c 'import json; assert json.load(open("out"))["prefix"] == "name\ufffd/out_text_document"'
done
got=0
LM_IO_FAULT=kill:14 "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/killed" --tokenizer-type ByteTokenizer --quiet 2> err || got=$?
[ $got = 137 ] || fail "kill: exit $got: $(cat err)"
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/killed" --tokenizer-type ByteTokenizer --resume
cmp "${prefix}_text_document.bin" "$odd/killed_text_document.bin"
expect 0 '' "$lm" train-tokenizer --input "$odd/in.jsonl" --vocab-size 300 --output "$odd/tokenizer" --json
expect 0 '' "$lm" --input "$odd/in.jsonl" --output-prefix "$odd/hf" --tokenizer-model "$odd/tokenizer"
expect 0 '' "$lm" merge --output-prefix "$odd/merged" "${prefix}_text_document" "$odd/killed_text_document"

# Strings in JSON must be text.
expect 2 '--special-tokens: .*UTF-8' "$lm" train-tokenizer --input a.jsonl --vocab-size 300 --special-tokens $'\xff' --output bad
expect 2 '--json-keys: .*UTF-8' "$lm" --input a.jsonl --output-prefix bad --json-keys $'te\xffxt'
nothing_under bad

# Half a character in a member that is not requested; a format that predates xz.
printf '{"o":"\\ud800","text":"one"}\n{"text":"\\udc00","text":"two"}\n' > halves.jsonl
"$lm" --input halves.jsonl --output-prefix halves --quiet
[ "$("$lm" cat halves_text_document)" = $'{"text":"one"}\n{"text":"two"}' ] || fail "halves: $("$lm" cat halves_text_document)"
xz --format=lzma -k a.jsonl
expect 0 '' "$lm" --input a.jsonl.lzma --output-prefix old --tokenizer-type ByteTokenizer --workers 3
cmp old_text_document.bin "${prefix}_text_document.bin"

# Corrupt compressed data appears as bad lines long before the checksum that detects it. The message names the corruption, for a
# file and for standard input, with every action on bad lines. If the data is intact, the message names the bad line.
python3 - <<'PY'
import gzip, lzma, random
random.seed(5)
lines = ["{\"text\": \"%s\"}" % " ".join(str(random.getrandbits(40)) for _ in range(30)) for _ in range(12000)]
lines[4321] = lines[4321][:-1]  # not JSON
bad = "\n".join(lines).encode()
sound = bad.replace(lines[4321].encode(), lines[4321].encode() + b"}")
open("bad.jsonl", "wb").write(bad)
open("sound.jsonl", "wb").write(sound)
packed = bytearray(gzip.compress(sound, 0))
packed[packed.index(b'"}', 1000000)] ^= 16  # a bad line, and the checksum 3 MB after it
open("stored.jsonl.gz", "wb").write(packed)
PY
for form in gz xz zst; do
    case $form in
    gz) pack=(gzip -c) ;;
    xz) pack=(xz -0 -c) ;;
    zst) pack=(zstd -q -c) ;;
    esac
    if ! command -v "${pack[0]}" > /dev/null; then
        echo "skipped: $form: no ${pack[0]}"
        continue
    fi
    "${pack[@]}" sound.jsonl > flipped.jsonl.$form
    "${pack[@]}" bad.jsonl > bad.jsonl.$form
    python3 - flipped.jsonl.$form <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 4
open(sys.argv[1], "wb").write(data)
PY
done
# from FILE COMMAND...: runs it with FILE as standard input.
from() { "${@:2}" < "$1"; }
for rule in fail skip replace; do
    args=(--output-prefix bad --tokenizer-type ByteTokenizer --workers 2 --quiet --on-bad-line "$rule")
    for input in flipped.jsonl.* stored.jsonl.gz; do
        expect 3 " $input: .*(gzip|xz|zstd) .*corrupt" "$lm" --input "$input" "${args[@]}"
        expect 3 ' standard input: .*(gzip|xz|zstd) .*corrupt' from "$input" "$lm" --input - "${args[@]}"
    done
    [ $rule != skip ] || continue
    for input in bad.jsonl.*; do
        expect 3 " $input:4322:[0-9]+: " "$lm" --input "$input" "${args[@]}"
        expect 3 ' standard input:4322:[0-9]+: ' from "$input" "$lm" --input - "${args[@]}"
        ! grep -q 'note: ' err || fail "a note of a short while: $(cat err)"
    done
    nothing_under bad_text
    expect 3 ' stored.jsonl.gz: .*gzip .*corrupt' \
        "$lm" train-tokenizer --input stored.jsonl.gz --vocab-size 300 --output bad_tok --on-bad-line $rule
    expect 3 ' standard input: .*gzip .*corrupt' \
        from stored.jsonl.gz "$lm" train-tokenizer --input - --vocab-size 300 --output bad_tok --on-bad-line $rule
done
# Corruption after a bad line of another file; a note is printed before the long check.
expect 3 ' bad.jsonl.gz:4322:' \
    "$lm" --input bad.jsonl.gz stored.jsonl.gz --output-prefix bad --tokenizer-type ByteTokenizer --workers 2
{ echo '{"text":5}'; yes '{"text":"some words"}' | head -c 200000000; } | gzip -1 > long.jsonl.gz || true
expect 3 'note: long.jsonl.gz:1:9: ' "$lm" --input long.jsonl.gz --output-prefix bad --tokenizer-type ByteTokenizer --workers 2
grep -q '^lm-preprocess: long.jsonl.gz:1:9' err || fail "$(cat err)"
nothing_under bad_text

# Skipped lines in a shard: the previous lines are counted for each warning that is printed, not for every bad line.
python3 - <<'PY'
import os, subprocess
line = '{"text": "a line that can be used"}\n'
lines = [line if i % 20 else '{"nope": 1}\n' for i in range(300000)]
open("skip.jsonl", "w").writelines(lines)
size = os.path.getsize("skip.jsonl")
for shard in "0/2", "1/2":
    run = subprocess.Popen(["lm-preprocess", "--input", "skip.jsonl", "--output-prefix", "skip", "--shard", shard, "--force",
                            "--on-bad-line", "skip", "--tokenizer-type", "ByteTokenizer", "--workers", "1", "--quiet"],
                           stderr=subprocess.PIPE, text=True)
    err = run.stderr.read()
    os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)
    read = int(open(f"/proc/{run.pid}/io").readline().split()[1])
    assert run.wait() == 0, err
    warned = [int(w.split(":")[3]) for w in err.splitlines() if w.endswith("'text': skipped")]
    assert len(warned) == 10 and "more skipped lines" in err, err
    assert all(lines[n - 1] == '{"nope": 1}\n' for n in warned), warned
    assert read < 4 * size + (32 << 20), f"shard {shard}: {read} bytes were read of a file of {size}"
PY

# A line that ends the run: the message has the remedies.
bad_line() { expect 3 "$1" "$lm" --input bad_line.jsonl --output-prefix bad_line "${@:2}"; }
printf '{"text":"a\xff"}\n' > bad_line.jsonl
bad_line ' bad_line.jsonl:1:[0-9]+: .*--on-bad-line replace .*--on-bad-line skip'
echo '{"title":"a"}' > bad_line.jsonl
bad_line " bad_line.jsonl:1:1: .*'text': --json-keys .*--on-bad-line skip"
bad_line " bad_line.jsonl:1:1: .*'text': --json-keys " --on-bad-line replace
printf '{"text":' > bad_line.jsonl
bad_line ' bad_line.jsonl:1:[0-9]+: .*JSON.*: --on-bad-line skip'
bad_line ' bad_line.jsonl:1:[0-9]+: .*JSON.*: --on-bad-line replace .*--on-bad-line skip' --on-bad-line replace
for encoding in UTF-16 UTF-16LE UTF-16BE UTF-32 UTF-32LE UTF-32BE; do
    echo '{"text":"a"}' | iconv -f UTF-8 -t $encoding > bad_line.jsonl
    bad_line " bad_line.jsonl:1:1: .*${encoding%?E}: .*iconv -f ${encoding%?E} -t UTF-8.$"
done
nothing_under bad_line_

# A text that its normalizer makes longer than 2.15 GB ends the run with any action on bad lines, because some ids are
# already written.
python3 - <<'PY'
import json
with open("grown.jsonl", "w") as out:
    for i in range(40):
        out.write('{"text": 5, "b": "y"}\n')
    out.write('{"text": "some words", "b": "y"}\n{"text": "some words", "b": "%s"}\n' % ("x" * 3000))
with open("grown.json", "w") as out:
    chars = [*range(33, 127), *range(161, 173), *range(174, 512)]
    json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
               "normalizer": {"type": "Replace", "pattern": {"String": "x"}, "content": "y" * 1000000},
               "model": {"type": "BPE", "vocab": {chr(c): i for i, c in enumerate(chars)}, "merges": []}}, out)
PY
expect 3 "^lm-preprocess: grown.jsonl:1:10: 'text' " \
    "$lm" --input grown.jsonl --json-keys text b --output-prefix bad --tokenizer-model grown.json
for workers in 1 3; do
    expect 3 '^lm-preprocess: grown.jsonl:42:1: .* 2.15 GB ' \
        "$lm" --input grown.jsonl --json-keys text b --output-prefix bad --tokenizer-model grown.json --on-bad-line skip --quiet --workers $workers
done
for rule in fail replace; do
    tail -n 2 grown.jsonl > grown2.jsonl
    expect 3 '^lm-preprocess: grown2.jsonl:2:1: .* 2.15 GB ' \
        "$lm" --input grown2.jsonl --json-keys text b --output-prefix bad --tokenizer-model grown.json --on-bad-line $rule
done
got=0
{ echo y; head -c 3000 /dev/zero | tr '\0' x; } | "$lm" encode --tokenizer-model grown.json > out 2> err || got=$?
[ $got = 3 ] || fail "encode of a text that grows: exit $got"
grep -q '^lm-preprocess: standard input:2: .* 2.15 GB [^:]*$' err || fail "$(cat err)"
nothing_under bad_text

# A stop takes effect while standard input is silent: the program ends before its input does, without leftovers.
for signal in TERM INT; do
    python3 - "$lm" $signal <<'PY' || fail "$signal while standard input is silent"
import os, signal, subprocess, sys, time
kind = getattr(signal, "SIG" + sys.argv[2])
run = subprocess.Popen([sys.argv[1], "--input", "-", "--output-prefix", "silent", "--tokenizer-type", "ByteTokenizer"],
                       stdin=subprocess.PIPE)
run.stdin.write(b'{"text":"a"}\n')
run.stdin.flush()
while True:  # until the run has started and handles signals
    caught = next(line for line in open(f"/proc/{run.pid}/status") if line.startswith("SigCgt"))
    if int(caught.split()[1], 16) >> (signal.SIGUSR1 - 1) & 1 or os.path.exists("silent.unfinished"): break
    time.sleep(0.01)
time.sleep(0.3)
run.send_signal(kind)
run.wait(timeout=60)
sys.exit(run.returncode != -kind)
PY
    nothing_under silent
done

# Lists that are given twice are joined; --resume --json reports outputs that already exist.
printf '{"text":"a","b":"c"}\n' > one.jsonl
printf '{"text":"bb","b":"cc"}\n' > two.jsonl
twice=(--input one.jsonl --json-keys text --input two.jsonl --json-keys b --output-prefix twice --tokenizer-type ByteTokenizer)
expect 0 '' "$lm" "${twice[@]}" --json
cp out first
[ "$("$lm" cat twice_text_document)$("$lm" cat twice_b_document)" = $'{"text":"a"}\n{"text":"bb"}{"text":"c"}\n{"text":"cc"}' ] ||
    fail "an input or a key was lost: $("$lm" cat twice_text_document)"
expect 0 'note: twice_[^:]*: .*complete' "$lm" "${twice[@]}" --json --resume
python3 -c '
import json
first, again = (json.load(open(name)) for name in ("first", "out"))
timed = "seconds", "MB_per_s", "resumed_bytes"
assert list(again) == list(first), (list(again), list(first))
assert {k: v for k, v in again.items() if k not in timed} == {k: v for k, v in first.items() if k not in timed}, again
assert again["documents"] == 2 and again["resumed_bytes"] == first["input_bytes"]'
# Documents without tokens are dropped and counted, also by a run whose outputs are complete.
printf '{"a":"x","b":"y"}\n\n{"a":"x2","b":""}\n{"a":"","b":"y3"}\n{"a":"","b":""}\n' > gaps.jsonl
gaps=(--input gaps.jsonl --json-keys a b --output-prefix gaps --tokenizer-type ByteTokenizer --json)
for again in '' --resume; do
    # shellcheck disable=SC2086
    expect 0 'note: gaps_a_document: 2 of 4 documents .*--keep-empty' "$lm" "${gaps[@]}" $again
    grep -q 'note: gaps_b_document: 2 of 4 documents' err || fail "no note of gaps_b_document: $(cat err)"
    grep -q '"documents":4,.*"left_out_documents":{"a":2,"b":2}' out || fail "statistics: $(cat out)"
done
expect 0 '' "$lm" "${gaps[@]}" --keep-empty --force
grep -q '"left_out_documents":{"a":0,"b":0}' out || fail "statistics: $(cat out)"
! grep 'note: gaps_' err || fail "--keep-empty leaves out"
expect 0 '' "$lm" "${gaps[@]}" --force --quiet
[ ! -s err ] || fail "--quiet: $(cat err)"
: > gaps_a_document.idx
expect 3 '^lm-preprocess: gaps_a_document.idx: .*empty' "$lm" info gaps_a_document
expect 2 '--vocab-size: .*1, got 0' "$lm" verify twice_text_document --vocab-size 0
expect 2 '--num-workers: .*--workers' "$lm" --input one.jsonl --output-prefix bad --num-workers 2
expect 2 '--max-documents: ' "$lm" --input one.jsonl --output-prefix bad --max-documents 2
