#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt on checkpoints of lm-train: lists, shows, finds corruption, goes back, compares, prunes.
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

# verify: a sound checkpoint, then one flipped bit, a missing file, and `latest` without its step.
expect 0 '' lm-ckpt verify c --quiet
[ "$(grep -c ': ok: ' out)" = 4 ] || fail "verify: $(cat out)"
cp -r c d
flip d/global_step12/optim-00000.safetensors
expect 1 '' lm-ckpt verify d/global_step12 --quiet
grep -Eq 'optim-00000.safetensors: tensor .*: checksum mismatch' out || fail "verify: $(cat out)"
rm d/global_step9/weights-00000.safetensors
truncate -s -1 d/global_step6/weights-00000.safetensors
printf global_step77 >d/latest
expect 1 '' lm-ckpt verify d --quiet --json
[ "$(jq -s 'map(select(.ok)) | length' out)" = 1 ] || fail "verify --json: $(cat out)"
expect 1 '' lm-ckpt verify d --quiet
grep -q 'd/latest: names global_step77, which does not exist' out || fail "verify: $(cat out)"

# A step under another step's name, and a dangling link among the files.
cp -r c e
mv e/global_step6 e/global_step5
ln -s nowhere e/global_step9/dangling
expect 1 '' lm-ckpt verify e --quiet
[ "$(grep -c ': ok: ' out)" = 3 ] || fail "verify: $(cat out)"
grep -q 'e/global_step5: its manifest is of iteration 6: rename the directory to global_step6' out || fail "verify: $(cat out)"
expect 0 '' lm-ckpt ls e
grep -Eq '^ +5 .* incomplete: .*rename the directory' out || fail "ls: $(cat out)"

# Back to an earlier step; only complete ones.
expect 0 '' lm-ckpt latest c 6
[ "$(head -n1 c/latest)" = global_step6 ] || fail "latest: $(head -n1 c/latest)"
expect 3 'weights-00000.safetensors' lm-ckpt latest d 9
expect 2 'c/global_step7: does not exist' lm-ckpt latest c global_step7
expect 2 "STEP: 'x'" lm-ckpt latest c x

# diff: a resumed run equals the uninterrupted run.
lm-train "${args[@]}" --load c --save again >/dev/null 2>&1
expect 0 '' lm-ckpt diff c/global_step12 again
grep -q '^equal: ' out || fail "diff: $(cat out)"
expect 1 '' lm-ckpt diff c/global_step9 c/global_step12 --json
[ "$(jq -s 'map(select(.different > 0)) | length > 10' out)" = true ] || fail "diff --json: $(cat out)"
expect 3 'corrupt: use another step' lm-ckpt diff c/global_step12 d/global_step12

# prune.
expect 0 '' lm-ckpt latest c 12
expect 2 'at least one of' lm-ckpt prune c
cp -r c whole
four="c/global_step12 c/global_step3 c/global_step6 c/global_step9"
all_stay() { [ "$(echo c/global_step*)" = "$four" ] || fail "$*: removed something: $(echo c/global_step*)"; }
# A step of --keep that does not exist, or is incomplete: nothing is removed.
expect 2 '^lm-ckpt: --keep: global_step9999 does not exist in c: nothing was removed' lm-ckpt prune c --keep 9999
expect 2 '^lm-ckpt: --keep: global_step9999 does not exist in c' lm-ckpt prune c --keep 6,9999 --keep-last 2 --dry-run
expect 2 '^lm-ckpt: --keep: global_step9 is not complete in d' lm-ckpt prune d --keep 9
all_stay --keep
expect 0 '^lm-ckpt: warning: --keep-every 7: keeps no step' lm-ckpt prune c --keep-every 7 --dry-run
# The newest kept step and the step of `latest` are verified before other steps are removed.
flip c/global_step12/weights-00000.safetensors
expect 3 '^lm-ckpt: c/global_step12: is the step to keep, and is corrupt: nothing was removed' lm-ckpt prune c --keep-last 1
grep -q 'warning: c/global_step12/weights-00000.safetensors: tensor .* checksum mismatch' err || fail "prune: $(cat err)"
all_stay "a corrupt step"
rm -r c; cp -r whole c
flip c/global_step6/optim-00000.safetensors
expect 0 '' lm-ckpt latest c 6
expect 3 '^lm-ckpt: c/global_step6: is the step to keep, and is corrupt' lm-ckpt prune c --keep-last 1
all_stay "a corrupt step"
expect 0 '' lm-ckpt prune c --keep-last 1 --no-verify
[ "$(echo c/global_step*)" = "c/global_step12 c/global_step6" ] || fail "prune --no-verify: $(echo c/*)"
rm -r c; cp -r whole c
expect 0 '' lm-ckpt prune c --keep-every 6 --keep 3 --dry-run
grep -q '^would verify global_step12 (' out || fail "prune: $(cat out)"
grep -q '^would remove global_step9 ' out || fail "prune: $(cat out)"
[ -d c/global_step9 ] || fail "prune --dry-run removed something"
expect 0 '' lm-ckpt prune c --keep-every 6 --keep 3
grep -Eq '^verified global_step12 \([0-9.]+ KiB in ' out || fail "prune: $(cat out)"
[ "$(echo c/global_step*)" = "c/global_step12 c/global_step3 c/global_step6" ] || fail "prune: $(echo c/*)"
expect 0 ': kept$' lm-ckpt prune d --keep-last 1 --no-verify
[ -d d/global_step9 ] || fail "prune removed an incomplete step"

# Usage errors.
expect 2 'nowhere: does not exist' lm-ckpt ls nowhere
expect 2 'has no checkpoint' lm-ckpt show "$(mkdir empty && echo empty)"
expect 3 'has no checkpoint' lm-ckpt ls empty
expect 2 'is one step' lm-ckpt ls c/global_step3
echo "lm-ckpt: all as promised"
