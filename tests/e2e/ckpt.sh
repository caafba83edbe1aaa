#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt on checkpoints of lm-train: lists, shows, finds corruption, rolls back, compares, prunes.
# timeout: 300
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

make_corpus corpus.jsonl 100
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 24 --micro-batch-size 2
    --global-batch-size 2 --train-iters 12 --lr 1e-3 --data-path data_text_document --threads 1
    --eval-interval 100 --eval-iters 1 --log-interval 12)
lm-train "${args[@]}" --save c --save-interval 3 >/dev/null 2>&1

# ls, show, latest.
expect 0 '' lm-ckpt ls c
[ "$(wc -l <out)" = 5 ] || fail "ls: $(cat out)"
grep -Eq '^ +12 .* tp1 pp1 dp1 .* complete, latest$' out || fail "ls: $(cat out)"
expect 0 '' lm-ckpt ls c --json
[ "$(jq -s 'map(select(.complete)) | length' out)" = 4 ] || fail "ls --json: $(cat out)"
[ "$(jq -s 'map(select(.latest))[0] | .consumed_samples' out)" = 24 ] || fail "ls --json: $(cat out)"
expect 0 '' lm-ckpt show c --tensors
grep -Eq '^counters.iteration +12$' out || fail "show: $(cat out)"
grep -Eq '^model.hidden_size +16$' out || fail "show: $(cat out)"
grep -Eq '^embedding.word.weight +\[257, 16\] +fp32 +4112 +1$' out || fail "show --tensors: $(cat out)"
expect 0 '' lm-ckpt show c/global_step6 --json
[ "$(jq .counters.iteration out)" = 6 ] || fail "show --json: $(cat out)"
expect 0 '' lm-ckpt latest c
[ "$(cat out)" = global_step12 ] || fail "latest: $(cat out)"

# A step that this user may not read is an error. It is not reported as corrupt.
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    cp -r c private
    chmod 755 . private
    chmod 700 private/global_step12
    expect 3 'private/global_step12/.*Permission denied' \
        setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all lm-ckpt show private
fi

# verify: an intact checkpoint; then one flipped bit, a missing file, a truncated file, and a `latest` that names a missing step.
expect 0 '' lm-ckpt verify c --quiet
[ "$(grep -c ': ok: ' out)" = 4 ] || fail "verify: $(cat out)"
cp -r c d
flip d/global_step12/optim-00000.safetensors
expect 1 '' lm-ckpt verify d/global_step12 --quiet
grep -Eq 'optim-00000.safetensors: tensor .*: checksum' out || fail "verify: $(cat out)"
rm d/global_step9/weights-00000.safetensors
truncate -s -1 d/global_step6/weights-00000.safetensors
printf global_step77 >d/latest
expect 1 '' lm-ckpt verify d --quiet --json
[ "$(jq -s 'map(select(.ok)) | length' out)" = 1 ] || fail "verify --json: $(cat out)"
[ "$(jq -rs 'map(select(.path == "d/global_step12"))[0].problems[0] | [.file, .kind] | join(" ")' out)" = \
    "d/global_step12/optim-00000.safetensors exp_avg_sq" ] || fail "verify --json: $(cat out)"
[ "$(jq -rs 'map(select(.path == "d/latest"))[0].problems[0] | .file, .tensor' out)" = "d/latest
null" ] || fail "verify --json: $(cat out)"
expect 1 '' lm-ckpt verify d --quiet
grep -q 'd/latest: .*global_step77' out || fail "verify: $(cat out)"

# A step under another step's name, and a dangling link among the files.
cp -r c e
mv e/global_step6 e/global_step5
ln -s nowhere e/global_step9/dangling
expect 1 '' lm-ckpt verify e --quiet
[ "$(grep -c ': ok: ' out)" = 3 ] || fail "verify: $(cat out)"
grep -q 'e/global_step5: .* 6: .*global_step6' out || fail "verify: $(cat out)"
expect 0 '' lm-ckpt ls e
grep -Eq '^ +5 .* incomplete: e/global_step5: .* 6:' out || fail "ls: $(cat out)"

# A rollback to an earlier complete step sets aside the later steps and their log lines.
cp -r c back
expect 0 'note: back/global_step9: .* back/abandoned-g2/global_step9$' lm-ckpt latest back 6
[ "$(head -n1 back/latest)" = global_step6 ] || fail "latest: $(cat back/latest)"
[ "$(echo back/global_step*)" = "back/global_step3 back/global_step6" ] || fail "latest: $(echo back/*)"
expect 0 '' lm-ckpt ls back
grep -Eq '^ +12 .* abandoned +complete, in abandoned-g2$' out || fail "ls: $(cat out)"
grep -Eq '^ +6 .* current +complete, latest$' out || fail "ls: $(cat out)"
expect 0 '' lm-ckpt latest back 3 --remove-later --json
[ "$(jq -r '.set_aside[0], .removed' out)" = "back/abandoned-g3/global_step6
true" ] || fail "latest --json: $(cat out)"
[ ! -e back/abandoned-g3 ] || fail "latest --remove-later: $(echo back/*)"
expect 3 ' d/global_step9/weights-00000.safetensors: ' lm-ckpt latest d 9
# A step that a run cannot load is refused. To undo a rollback, move the step back and roll back to this step.
cp -r c there
flip there/global_step6/weights-00000.safetensors
expect 3 '^lm-ckpt: there/global_step6: ' lm-ckpt latest there 6
[ "$(head -n1 there/latest)" = global_step12 ] || fail "latest: $(cat there/latest)"
expect 0 '' lm-ckpt latest there 3
mv there/abandoned-g*/global_step9 there
expect 0 '' lm-ckpt latest there 9
[ "$(lm-ckpt latest there)" = global_step9 ] || fail "latest: $(cat there/latest)"
expect 0 '' lm-ckpt verify there/global_step9 --quiet
expect 2 ' c/global_step7: ' lm-ckpt latest c global_step7
expect 2 "STEP: 'x' " lm-ckpt latest c x
expect 2 '--remove-later.* STEP' lm-ckpt latest c --remove-later

# No doubled curve after a rollback: the logs and TensorBoard files end at the step.
mkdir r
lm-train "${args[@]}" --save r --save-interval 3 --log-interval 1 --log-file r/train.log --log-json steps.jsonl \
    --tensorboard-dir r/tensorboard >/dev/null 2>&1
expect 2 '--logs: nothing.jsonl: ' lm-ckpt latest r 6 --logs nothing.jsonl
expect 0 'note: steps.jsonl: .* 6: ' lm-ckpt latest r 6 --logs 'steps*'
[ "$(jq -s '[.[] | .iteration // empty] | max' steps.jsonl)" = 6 ] || fail "steps.jsonl: $(cat steps.jsonl)"
[ "$(jq -s '[.[] | .iteration // empty] | max' r/abandoned-g2/steps.jsonl)" = 12 ] || fail "$(ls r/abandoned-g2)"
! grep -q 'iteration *7/' r/train.log || fail "train.log: $(cat r/train.log)"
grep -q 'iteration *6/' r/train.log || fail "train.log: $(cat r/train.log)"
cmp -s r/tensorboard/events* r/abandoned-g2/tensorboard/events* && fail "TensorBoard files were not cut"
lm-train "${args[@]}" --save r --load r --log-interval 1 --log-json steps.jsonl >/dev/null 2>&1
[ "$(jq -s '[.[] | select(.kind == "step") | .iteration] | . == [range(1; 13)]' steps.jsonl)" = true ] ||
    fail "steps.jsonl: $(cat steps.jsonl)"
expect 0 '' lm-ckpt diff r/abandoned-g2/global_step12 r
grep -q '^equal: ' out || fail "diff: $(cat out)"

# Defects of a directory: neither a file nor a dangling link with the name of a step hides the other steps.
cp -r c odd
touch odd/global_step99
ln -s nowhere odd/global_step98
mkdir odd/global_step7.tmp.copy odd/global_step8.tmp.removed
expect 0 '' lm-ckpt ls odd
[ "$(grep -c 'complete$\|complete, latest$' out)" = 4 ] || fail "ls: $(cat out)"
grep -Eq '^ +99 .* incomplete: odd/global_step99: ' out || fail "ls: $(cat out)"
grep -Eq 'left-over: global_step7.tmp.copy$' out || fail "ls: $(cat out)"
expect 1 '' lm-ckpt verify odd --quiet
[ "$(grep -c ': ok: ' out)" = 4 ] || fail "verify: $(cat out)"
expect 0 '' lm-ckpt prune odd --leftovers 1h --dry-run
! grep -q global_step7 out || fail "prune --leftovers: $(cat out)"
expect 0 '' lm-ckpt prune odd --leftovers 0s
[ ! -e odd/global_step7.tmp.copy ] || fail "prune --leftovers: $(cat out)"

# diff: a resumed run equals the uninterrupted run.
lm-train "${args[@]}" --load c/global_step6 --save again >/dev/null 2>&1
expect 0 '' lm-ckpt diff c/global_step12 again
grep -q '^equal: ' out || fail "diff: $(cat out)"
expect 1 '' lm-ckpt diff c/global_step9 c/global_step12 --json
[ "$(jq -s 'map(select(.different > 0)) | length > 10' out)" = true ] || fail "diff --json: $(cat out)"
# A terminal of 80 columns shows each line whole.
script -qec "stty cols 80; NO_COLOR=1 lm-ckpt diff c/global_step9 c/global_step12 -q" /dev/null </dev/null >terminal || [ $? = 1 ]
grep -q ' of .* differ' terminal || fail "diff on a terminal: $(cat terminal)"
[ "$(tr -d '\r' <terminal | wc -L)" -le 80 ] || fail "diff: a line of more than 80 columns: $(cat terminal)"
expect 3 '^lm-ckpt: d/global_step12/optim-00000.safetensors: tensor .*checksum' lm-ckpt diff c/global_step12 d/global_step12

# prune.
expect 2 'prune: .*--keep-last' lm-ckpt prune c
cp -r c whole
four="c/global_step12 c/global_step3 c/global_step6 c/global_step9"
all_stay() { [ "$(echo c/global_step*)" = "$four" ] || fail "$*: removed something: $(echo c/global_step*)"; }
# A step of --keep that does not exist, or is incomplete: nothing is removed.
expect 2 '^lm-ckpt: --keep: global_step9999 ' lm-ckpt prune c --keep 9999
expect 2 '^lm-ckpt: --keep: global_step9999 ' lm-ckpt prune c --keep 6,9999 --keep-last 2 --dry-run
expect 2 '^lm-ckpt: --keep: global_step9 ' lm-ckpt prune d --keep 9
all_stay --keep
expect 0 '^lm-ckpt: warning: --keep-every 7: ' lm-ckpt prune c --keep-every 7 --dry-run
# The step that a run would load is verified before other steps are removed.
flip c/global_step12/weights-00000.safetensors
expect 3 '^lm-ckpt: c/global_step12: .*corrupt' lm-ckpt prune c --keep-last 1
grep -q 'warning: c/global_step12/weights-00000.safetensors: tensor ' err || fail "prune: $(cat err)"
all_stay "a corrupt step"
expect 0 '' lm-ckpt prune c --keep-last 1 --no-verify
[ "$(echo c/global_step*)" = c/global_step12 ] || fail "prune --no-verify: $(echo c/*)"
rm -r c; cp -r whole c
# The rules apply to the current branch; --abandoned removes the other branches.
expect 0 '' lm-ckpt latest c 6
expect 0 '' lm-ckpt prune c --keep-last 1
[ "$(echo c/*global_step* c/abandoned*/*)" = "c/global_step6 c/abandoned-g2/global_step12 c/abandoned-g2/global_step9" ] ||
    fail "prune: $(echo c/*)"
expect 0 '' lm-ckpt prune c --abandoned --json
[ "$(jq -rs 'map(select(.kind == "abandoned"))[0].name' out)" = abandoned-g2 ] || fail "prune --abandoned: $(cat out)"
[ "$(echo c/*global_step* c/abandoned*)" = "c/global_step6 c/abandoned*" ] || fail "prune --abandoned: $(echo c/*)"
rm -r c; cp -r whole c
# --keep-schedule keeps the steps of a save schedule; --weights-only-older-than removes the optimizer state of old steps.
expect 0 '' lm-ckpt prune c --keep-schedule 3@6,12 --dry-run --no-verify
[ "$(grep '^would remove' out | cut -d' ' -f3)" = global_step9 ] || fail "prune --keep-schedule: $(cat out)"
expect 2 "^lm-ckpt: --keep-schedule: '3@6,12@5'" lm-ckpt prune c --keep-schedule 3@6,12@5
expect 2 '^lm-ckpt: --keep-last: .*1, got 0' lm-ckpt prune c --keep-last 0
expect 2 '--weights-only-older-than: .*1, got 0' lm-ckpt prune c --weights-only-older-than 0
expect 0 '' lm-ckpt prune c --weights-only-older-than 2
expect 0 '' lm-ckpt ls c
[ "$(grep -c 'complete, weights only$' out)" = 2 ] || fail "--weights-only-older-than: $(cat out)"
expect 0 '' lm-ckpt verify c --quiet
expect 0 '' lm-ckpt diff c/global_step3 whole/global_step3 --weights-only
expect 0 '' lm-ckpt prune c --weights-only-older-than 2 --dry-run
grep -q 'optimizer state' out && fail "removed twice: $(cat out)"
rm -r c; cp -r whole c
# A step that is being copied stays until the copy ends.
flock -s c/global_step3/manifest.json sleep 2 &
sleep 0.3
expect 0 'note: c/global_step3: ' lm-ckpt prune c --keep-last 3
[ -z "$(jobs -rp)" ] || fail "prune did not wait"
rm -r c; cp -r whole c
expect 0 '' lm-ckpt prune c --keep-every 6 --keep 3 --dry-run
grep -q '^would verify global_step12 (' out || fail "prune: $(cat out)"
grep -q '^would remove global_step9 ' out || fail "prune: $(cat out)"
[ -d c/global_step9 ] || fail "prune --dry-run removed something"
expect 0 '' lm-ckpt prune c --keep-every 6 --keep 3
grep -Eq '^verified global_step12 \([0-9.]+ KiB in ' out || fail "prune: $(cat out)"
[ "$(echo c/global_step*)" = "c/global_step12 c/global_step3 c/global_step6" ] || fail "prune: $(echo c/*)"
expect 3 '^lm-ckpt: d/latest: .*global_step77' lm-ckpt prune d --keep-last 1 --no-verify
printf global_step12 >d/latest
expect 0 'warning: d/global_step6/weights-00000.safetensors: .* 35328 .*: kept$' lm-ckpt prune d --keep-last 1 --no-verify
[ -d d/global_step9 ] || fail "prune removed an incomplete step"

# Usage errors.
expect 2 ' c: .*--check-replicas' lm-ckpt repair c repaired
[ ! -e repaired ] || fail "a refused repair left its output"
expect 2 ' nowhere: ' lm-ckpt ls nowhere
expect 2 ' empty: ' lm-ckpt show "$(mkdir empty && echo empty)"
expect 2 ' empty: ' lm-ckpt ls empty
expect 2 ' c/global_step3: ' lm-ckpt ls c/global_step3
echo "lm-ckpt: all as promised"
