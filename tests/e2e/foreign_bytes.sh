#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Files that other programs wrote or change: JSON that is nested too deeply, control characters in names and fields, and a dataset
# that becomes shorter while it is read.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 200
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 32 --micro-batch-size 1 --global-batch-size 2
    --eval-iters 0 --lr 1e-3 --threads 1 --data-path data_text_document)
brackets() { head -c "$1" /dev/zero | tr '\0' "$2"; }
deep=$(brackets 300000 '[')$(brackets 300000 ']')
# no_controls FILE: FILE has no control character but newlines.
no_controls() { ! LC_ALL=C grep -q $'[\001-\010\013-\037\177]' "$1" || fail "control characters: $(cat -v "$1")"; }

# Depth. A run continues from its lineage in the manifests.
run train.log lm-train "${args[@]}" --train-iters 4 --save run --save-interval 2
cp run/latest latest.good
{ head -n 2 latest.good && echo "$deep"; } >run/latest
run ls.txt lm-ckpt ls run
grep -Eq '^ +4 .*complete, latest' ls.txt || fail "ls with a deep lineage: $(cat ls.txt)"
cp latest.good run/latest
echo "{\"generation\": 1, \"deep\": $deep}" >run/fence.json
run resume.log lm-train "${args[@]}" --train-iters 6 --load run --save run --override-opt_param-scheduler
mkdir hf
echo "{\"model_type\": \"gpt2\", \"n_embd\": 4, \"vocab_size\": 8, \"n_positions\": 8, \"n_head\": 2, \"n_layer\": $deep}" >hf/config.json
expect 3 ' hf/config.json: .*deeply' lm-convert hf converted
nothing_under converted
echo "{\"train_batch_size\": $deep}" >ds.json
expect 3 ' ds.json: .*deeply' lm-train "${args[@]}" --train-iters 4 --deepspeed_config ds.json

# Terminals and logs: names and fields are printed with escapes, in one line.
odd=$'odd\033]0;title\007\n fake 9 GiB line'
mkdir "$odd"
cp -r run "$odd/run"
run odd.txt lm-ckpt show "$odd/run/global_step4"
no_controls odd.txt
[ "$(grep -c fake odd.txt)" = 1 ] || fail "show: a name makes a line: $(cat odd.txt)"
mkdir "run/global_step9.tmp.$odd"
run ls.txt lm-ckpt ls run
no_controls ls.txt
rmdir "run/global_step9.tmp.$odd"
segment=/dev/shm/$odd.$$
# shellcheck disable=SC2016
at_exit 'rm -f "$segment"; end_jobs; rm -rf "$work"'
: >"$segment"
lm-shmcheck >shm.txt 2>/dev/null || true
no_controls shm.txt
grep -q "x07.n fake 9 GiB line.$$" shm.txt || fail "lm-shmcheck: no row of the segment, or two: $(cat shm.txt)"
rm "$segment"
for end in bin idx; do cp data_text_document.$end "$odd/d.$end"; done
run odd.log lm-train "${args[@]}" --data-path "$odd/d" --train-iters 2 --log-file file.log
no_controls file.log
! grep -Evq '^[0-9]{4}-' file.log || fail "--log-file: a name makes a line: $(cat -v file.log)"
no_controls odd.log.err
run info.txt lm-preprocess info "$odd/d"
[ "$(grep -vc "^ " info.txt)" = 1 ] || fail "info: a name makes a line: $(cat -v info.txt)"
# The name of a host, from the environment or from the line of another host, and a path that is not UTF-8.
LM_HOST=$odd run host.log lm-train "${args[@]}" --data-path "$odd/d" --train-iters 2
no_controls host.log.err
! grep -q '^fake' host.log.err || fail "LM_HOST: a name makes a line: $(cat -v host.log.err)"
jq -cn --arg odd "$odd" '{kind: "host", host: $odd, health: "critical", reason: $odd, size: 1, dead_segments: 0, dead_bytes: 0}' |
    lm-shmcheck --summary >summary.txt || [ $? = 1 ]
[ "$(wc -l <summary.txt)" = 2 ] || fail "lm-shmcheck --summary: a name makes a line: $(cat -v summary.txt)"
latin1=$(printf 'r\xe9')
run latin1.log lm-train "${args[@]}" --data-path "$odd/d" --train-iters 2 --save "$latin1" --save-interval 2 --log-json "$latin1.json"
expect 0 '' lm-ckpt verify "$latin1"

# A dataset that becomes shorter during the training: one line with its name, exit code 3.
for end in bin idx; do cp data_text_document.$end cut.$end; done
lm-train "${args[@]}" --data-path cut --train-iters 10000000 --log-interval 10 >cut.log 2>cut.err &
pid=$!
until grep -q 'iteration ' cut.log; do
    kill -0 $pid || fail "lm-train ended: $(cat cut.err)"
    sleep 0.1
done
truncate -s 4096 cut.bin
code=0
wait $pid || code=$?
[ $code = 3 ] || fail "a dataset that was truncated: exit $code: $(tail -n 3 cut.err)"
[ "$(tail -n 1 cut.err)" = "$(grep '^lm-train: cut.bin: .* 4096' cut.err)" ] || fail "a dataset that was truncated: $(tail -n 3 cut.err)"
