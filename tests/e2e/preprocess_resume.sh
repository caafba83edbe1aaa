#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-preprocess in parts: shards, kill -9 with --resume, full disks. The bytes always equal those of one
# uninterrupted run. $LM_LONG=1: 50 kills instead of 8.
# timeout: 600
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
lm=$bin/lm-preprocess

# Suppresses the shell's message about a killed child.
quietly() { { "$@" 2> err; } 2> /dev/null; }
same() { # PREFIX: compares with the uninterrupted run
    local suffix
    for suffix in bin idx; do
        cmp "whole_text_document.$suffix" "$1_text_document.$suffix" || fail "$1 differs"
    done
    [ "$1" != merged ] || return 0 # its metadata file names merge
    # The metadata files are compared up to "origin", which names the inputs: some of these runs have other inputs.
    cmp <(sed '/"origin"/,$d' whole_text_document.json) <(sed '/"origin"/,$d' "$1_text_document.json") || fail "$1 differs"
}

python3 - <<'PY'
import json, random
rng = random.Random(7)
words = ["the", "of", "naïve", "don't", "  two", "\n\n", "日本語", "Привет", "😀", "x=1;", "\t", "2024"]
for name, n in (("a", 9000), ("b", 1), ("c", 700), ("d", 4000)):
    with open(name + ".jsonl", "w") as out:
        for i in range(n):
            text = "".join(" " + rng.choice(words) + str(rng.randrange(3000)) for _ in range(rng.randrange(0, 300)))
            out.write(json.dumps({"text": text, "title": "t%d" % i}, ensure_ascii=i % 2 == 0) + "\n")
PY
inputs=(a.jsonl b.jsonl c.jsonl d.jsonl)
"$lm" --input "${inputs[@]}" --output-prefix whole --append-eod --workers 1 --quiet
bytes=$(cat "${inputs[@]}" | wc -c)

# Shards, merged in order, equal the whole; of compressed inputs too.
gzip -k c.jsonl d.jsonl
for set in "a.jsonl b.jsonl c.jsonl d.jsonl" "a.jsonl b.jsonl c.jsonl.gz d.jsonl.gz"; do
    for n in 1 2 7; do
        prefixes=()
        for ((i = 0; i < n; i++)); do
            # shellcheck disable=SC2086
            "$lm" --input $set --output-prefix "s$i" --append-eod --shard "$i/$n" --quiet --force
            prefixes+=("s${i}_text_document")
        done
        "$lm" merge --output-prefix merged --force --quiet "${prefixes[@]}"
        cmp merged.bin whole_text_document.bin || fail "$n shards of $set"
        cmp merged.idx whole_text_document.idx || fail "$n shards of $set"
    done
done
# merge --force killed at any operation leaves the old dataset, the new one, or no .idx.
"$lm" --input c.jsonl --output-prefix old --quiet
for ((k = 1; ; k++)); do
    for suffix in bin idx json; do cp "old_text_document.$suffix" "m.$suffix"; done
    got=0
    LM_IO_FAULT=kill:$k quietly "$lm" merge --output-prefix m --force --quiet "${prefixes[@]}" || got=$?
    [ $got = 137 ] || break
    if [ -e m.idx ]; then
        cmp -s m.idx merged.idx && of=merged || of=old_text_document
        for suffix in bin idx json; do cmp "m.$suffix" "$of.$suffix" || fail "kill $k: not $of"; done
    fi
    rm -f m.*
done
[ "$got" = 0 ] || fail "operation $k of merge: exit $got: $(cat err)"
[ $k -gt 8 ] || fail "only $k operations of merge"
"$lm" verify m > /dev/null
expect 2 "--shard: .* 0 to 2" "$lm" --input a.jsonl --output-prefix bad --shard 3/3
expect 2 "--shard: .*'3'" "$lm" --input a.jsonl --output-prefix bad --shard 3
expect 2 '--shard: .*standard input' "$lm" --input - --output-prefix bad --shard 0/2
# Line numbers count from the start of the file for any shard.
{ head -n 8000 a.jsonl; echo '{"text":5}'; } > late.jsonl
expect 3 " late.jsonl:8001:9: 'text' " "$lm" --input late.jsonl --output-prefix bad --shard 3/4
expect 3 " late.jsonl:8001:9: 'text' " "$lm" --input late.jsonl --output-prefix bad --workers 3
nothing_under bad

# Several compressed files at once, each into its own part files.
mkdir zipped
for f in a b c d; do gzip -c $f.jsonl > zipped/$f.jsonl.gz; done
"$lm" --input zipped --output-prefix lanes --append-eod --workers 3 --quiet
same lanes

# Ranks of a launcher: each takes a shard and writes an output of its own; merged in order, they are the bytes of one run.
for set in "a.jsonl b.jsonl c.jsonl d.jsonl" "zipped"; do
    rm -f r-*
    for ((r = 0; r < 3; r++)); do
        # shellcheck disable=SC2086
        OMPI_COMM_WORLD_RANK=$r OMPI_COMM_WORLD_SIZE=3 "$lm" --input $set --output-prefix r --append-eod --shard rank --quiet &
    done
    wait
    "$lm" merge --force --output-prefix merged_text_document r-*.idx
    same merged
done
expect 2 '^lm-preprocess: --shard: .* 2 ranks ' \
    env OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "$lm" --input a.jsonl --output-prefix bad
expect 2 '^lm-preprocess: --shard: rank: .*mpirun or srun' "$lm" --input a.jsonl --output-prefix bad --shard rank
nothing_under bad
if command -v mpirun > /dev/null; then
    rm -f mpi-*
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe -n 3 \
        "$lm" --input "${inputs[@]}" --output-prefix mpi --append-eod --quiet --shard rank
    "$lm" merge --force --output-prefix merged_text_document mpi-*.idx
    same merged
else
    echo "mpirun is not here: ranks were started without it"
fi

# kill -9 at random moments; --resume ends with the same bytes and does not start again.
n_kills=8
[ "${LM_LONG:-0}" = 0 ] || n_kills=50
for i in 1 2 3 4 5 6 7 8 9 10; do cat "${inputs[@]}"; done > large.jsonl
"$lm" --input large.jsonl --output-prefix whole --append-eod --workers 2 --quiet --force
rm -f k_text_document.*
RANDOM=11
killed=0
for ((i = 0; i < n_kills; i++)); do
    "$lm" --input large.jsonl --output-prefix k --append-eod --workers 2 --resume --quiet &
    pid=$!
    sleep "0.$(printf %03d $((RANDOM % 400 + 20)))"
    kill -9 $pid 2> /dev/null && killed=$((killed + 1))
    wait $pid 2> /dev/null || true
    if [ -e k_text_document.idx ] && [ ! -e k.unfinished ]; then
        same k
        rm -f k_text_document.*
    fi
done
"$lm" --input large.jsonl --output-prefix k --append-eod --workers 2 --resume --quiet
same k
[ ! -e k.unfinished ] || fail "the work directory stayed"
echo "$killed kills"
# A kill at each operation on files.
kill_everywhere() { # FILE
    local k got
    "$lm" --input "$1" --output-prefix whole --append-eod --quiet --force
    for ((k = 1; ; k++)); do
        got=0
        LM_IO_FAULT=kill:$k quietly "$lm" --input "$1" --output-prefix f --append-eod --resume --quiet --workers 1 || got=$?
        [ $got = 137 ] || break
        if [ -e f.unfinished/complete ]; then
            expect 2 ' f[^:]*: .*inputs .*1.* 2' "$lm" --input "$1" b.jsonl --output-prefix f --append-eod --resume
        fi
        "$lm" --input "$1" --output-prefix f --append-eod --resume --quiet --json > stats 2> err || fail "$1: resume after kill $k: $(cat err)"
        grep -Eq '"documents":[1-9].*"left_out_documents":\{"text":[0-9]+\}' stats || fail "$1: kill $k: statistics: $(cat stats)"
        same f
        [ ! -e f.unfinished ] || fail "$1: kill $k: the work directory stayed"
        rm -f f_text_document.*
    done
    [ $got = 0 ] || fail "$1: operation $k: exit $got: $(cat err)"
    [ $k -gt 20 ] || fail "$1: only $k operations"
    rm -f f_text_document.*
}
# A document with one token a byte, whose tokens are written before all of them exist.
python3 - <<'PY'
with open("giant.jsonl", "w") as out:
    for text in "first", "\ue000" * 7_000_000, "last":
        out.write('{"text": "%s"}\n' % text)
PY
kill_everywhere giant.jsonl
"$lm" --input giant.jsonl --output-prefix f --append-eod --resume --quiet --workers 1 &
pid=$!
while kill -0 $pid 2> /dev/null; do
    written=$(stat -c %s f.unfinished/part-0000.0.bin 2> /dev/null || echo 0)
    [ "$written" -lt 9000000 ] || break
done
kill -TERM $pid 2> /dev/null || true # it may have ended
got=0
wait $pid || got=$?
[ $got = 75 ] || [ $got = 0 ] || fail "SIGTERM within a document: exit $got"
"$lm" --input giant.jsonl --output-prefix f --append-eod --resume --quiet
same f
rm -f f_text_document.* giant.jsonl
head -c 3000000 large.jsonl > some.jsonl
sed -i '$d' some.jsonl
kill_everywhere some.jsonl
# Another build of the program resumes, unless the work directory has another format.
LM_IO_FAULT=kill:20 quietly "$lm" --input some.jsonl --output-prefix f --append-eod --resume --quiet --workers 1 || true
sed -i 's/"tool": *"[^"]*"/"tool": "lm-preprocess 0.0.1+other"/' f.unfinished/run.json
cp -r f.unfinished other.unfinished
sed -i 's/"version": *[0-9]*/"version": 0/' other.unfinished/run.json
expect 2 ' other.unfinished/run.json: .*version 0, not 3: .*--force without --resume' \
    "$lm" --input some.jsonl --output-prefix other --append-eod --resume
# A corrupt plan is reported as such, with the remedy.
for damage in d 6,20d 's/"parts":/"pieces":/' 's/"inputs":/"other":/' 's/"path":.*/"path": 1,/' 's/{/[/'; do
    sed "$damage" f.unfinished/run.json > other.unfinished/run.json
    expect 3 ' other.unfinished/run.json: corrupt .(.* line [0-9]+, column [0-9]+|.[a-z_]+. .*).: .*--force without --resume' \
        "$lm" --input some.jsonl --output-prefix other --append-eod --resume
done
"$lm" --input some.jsonl --output-prefix other --append-eod --force --quiet
same other
expect 0 'note: .*lm-preprocess 0.0.1.other, .*lm-preprocess' "$lm" --input some.jsonl --output-prefix f --append-eod --resume
same f
rm -f f_text_document.*
# A full disk or another failure at each operation: exit 3, at most 3 lines on stderr, and an .idx under the final name only if
# the dataset is complete.
for action in short fail; do
    for ((k = 1; ; k++)); do
        got=0
        LM_IO_FAULT=$action:$k "$lm" --input some.jsonl --output-prefix f --append-eod --quiet --workers 1 2> err || got=$?
        [ $got != 0 ] || break
        [ $got = 3 ] || fail "$action $k: exit $got: $(cat err)"
        [ "$(wc -l < err)" -le 3 ] || fail "$action $k: $(cat err)"
        if [ -e f_text_document.idx ]; then same f; fi
        [ ! -e f.unfinished ] || fail "$action $k: the work directory stayed: $(cat err)"
        rm -f f_text_document.*
    done
    [ $k -gt 20 ] || fail "only $k operations"
    rm -f f_text_document.*
done
rm -f k_text_document.*
# Completed work is reused: a resumed run reads only a part of the input.
LM_IO_FAULT=kill:30 quietly "$lm" --input large.jsonl --output-prefix k --append-eod --workers 1 --quiet || true
[ -e k.unfinished/run.json ] || fail "nothing was left to resume"
expect 2 ' k.unfinished: .*--resume' "$lm" --input large.jsonl --output-prefix k --append-eod
expect 2 ' k.unfinished[^:]*: .*--append-eod true, not false' "$lm" --input large.jsonl --output-prefix k --resume
expect 2 ' k.unfinished[^:]*: input 1 .*large.jsonl, .*a.jsonl' "$lm" --input a.jsonl --output-prefix k --append-eod --resume
touch -d '2020-01-01' large.jsonl
expect 2 ' large.jsonl: ' "$lm" --input large.jsonl --output-prefix k --append-eod --resume
expect 0 'note: k.unfinished: .*removed' "$lm" --input large.jsonl --output-prefix k --append-eod --force
expect 0 'note: k_text_document: .*complete' "$lm" --input large.jsonl --output-prefix k --append-eod --resume
expect 2 ' k_text_document[^:]*: .*--force' "$lm" --input large.jsonl --output-prefix k --append-eod
# Complete outputs of other inputs or options: an error, and the outputs stay.
other() { # PATTERN ARGUMENTS...
    expect 2 " k_text_document: .*$1.*: .*--force" "$lm" --output-prefix k --append-eod --resume "${@:2}"
    [ ! -e k.unfinished ] || fail "a refused --resume leaves k.unfinished"
}
other 'inputs .*1, not 2' --input large.jsonl b.jsonl
other 'inputs.* changed' --input a.jsonl
other '--shard "0/1", not "1/2"' --input large.jsonl --shard 1/2
other '--keep-empty false, not true' --input large.jsonl --keep-empty
other '--on-bad-line "fail", not "skip"' --input large.jsonl --on-bad-line skip
other 'vocabulary .*50304, not 51200' --input large.jsonl --pad-vocab-size-to 51200
touch -d '2020-01-02' large.jsonl
other 'inputs.* changed' --input large.jsonl
touch -d '2020-01-01' large.jsonl
expect 0 'note: k_text_document: .*complete' "$lm" --input large.jsonl --output-prefix k --append-eod --resume --workers 1
python3 - <<'PY'
import json
side = json.load(open("k_text_document.json"))
del side["origin"]
json.dump(side, open("k_text_document.json", "w"))
PY
other 'metadata.* options' --input large.jsonl
rm k_text_document.json
other 'no metadata.* options' --input large.jsonl
rm -f k_text_document.*
# A stop signal with --resume keeps the work, and the exit code reports it.
"$lm" --input large.jsonl --output-prefix k --append-eod --workers 1 --resume --quiet 2> err &
pid=$!
while [ ! -s k.unfinished/part-0000.journal ] && kill -0 $pid 2> /dev/null; do sleep 0.01; done
kill -TERM $pid 2> /dev/null || true # it may have ended
got=0
wait $pid || got=$?
[ $got = 75 ] || [ $got = 0 ] || fail "SIGTERM with --resume: exit $got"
"$lm" --input large.jsonl --output-prefix k --append-eod --resume --json > stats 2> /dev/null
if [ $got = 75 ]; then python3 -c 'import json; assert json.load(open("stats"))["resumed_bytes"] > 0'; fi
# Two runs on one output: the second is refused.
mkfifo pipe
"$lm" --input pipe --output-prefix two --quiet &
pid=$!
exec 9> pipe
while [ ! -e two.unfinished/part-0000.journal ]; do sleep 0.01; done
expect 2 ' two[^:]*: .*another run' "$lm" --input a.jsonl --output-prefix two
echo '{"text":"a"}' >&9
exec 9>&-
wait $pid
echo "$bytes bytes: ok"
