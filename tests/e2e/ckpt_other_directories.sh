#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt sync, prune, ls and latest on directories that hold no steps of lm-utils: an error with advice, and no DEST. A save
# directory whose run has not saved yet has no fault.
# timeout: 240
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 4 --train-iters 2)
lm-train "${args[@]}" --save c --save-interval 2 >/dev/null 2>&1

mkdir -p empty megatron/iter_0000010/mp_rank_00 deepspeed/global_step10 universal/global_step10_universal/zero hf trainer/checkpoint-10
echo 10 >megatron/latest_checkpointed_iteration.txt
: >megatron/iter_0000010/mp_rank_00/model_optim_rng.pt
echo global_step10 >deepspeed/latest
: >deepspeed/global_step10/mp_rank_00_model_states.pt
echo global_step10_universal >universal/latest_universal
: >universal/global_step10_universal/mp_rank_00_model_states.pt
echo '{}' >hf/config.json
: >hf/model.safetensors
for case in empty: /usr: megatron:Megatron deepspeed:DeepSpeed universal:DeepSpeed 'hf:Hugging Face' 'trainer:Hugging Face'; do
    directory=${case%%:*}
    expect 2 "^lm-ckpt: $directory: .*${case#*:}" lm-ckpt sync "$directory" backup --logs '*.jsonl'
    [ ! -e backup ] || fail "$directory: DEST was created"
    expect 2 "^lm-ckpt: $directory: .*${case#*:}" lm-ckpt prune "$directory" --keep-last 1 --leftovers 1d
    expect 2 "^lm-ckpt: $directory: .*${case#*:}" lm-ckpt latest "$directory"
done
: >deepspeed/global_step10/zero_pp_rank_0_mp_rank_00_optim_states.pt
rm deepspeed/global_step10/mp_rank_00_model_states.pt
for verb in ls latest 'sync @ backup' 'prune @ --keep-last 1'; do
    [[ $verb == *@* ]] || verb="$verb @"
    # shellcheck disable=SC2086
    expect 2 ' deepspeed: .*DeepSpeed' lm-ckpt ${verb/@/deepspeed}
done
for directory in empty /usr hf trainer; do expect 2 "^lm-ckpt: $directory: " lm-ckpt ls $directory; done
expect 2 ' c/global_step2: ' lm-ckpt sync c/global_step2 backup
[ ! -e backup ] || fail "DEST was created"
# DEST is SRC, also through a link: no backup, and the rules must not remove steps of the source.
lm-train "${args[@]}" --save own --save-interval 1 >/dev/null 2>&1
cp -r own kept
ln -s own link
for destination in own ./own/. link; do
    expect 2 " $destination: .*SRC" lm-ckpt sync own $destination --keep-last 1
    diff -r kept own || fail "sync to itself: $(ls own)"
done

# The same under a name of a host or of a remote of rclone; the save directory of another training; a directory in SRC, or in
# a step of another directory; the backup of another training. Nothing there changes.
mkdir bin
printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >bin/fake-ssh
chmod +x bin/fake-ssh
printf '[store]\ntype = alias\nremote = %s\n' "$work" >rclone.conf
export RSYNC_RSH=$work/bin/fake-ssh RCLONE_CONFIG=$work/rclone.conf
prefixes=('')
if command -v rsync >/dev/null; then prefixes+=("near:$work/"); fi
if command -v rclone >/dev/null; then prefixes+=(store:); fi
lm-ckpt sync own copy >/dev/null # a backup of own, which may have a backup in turn
lm-train "${args[@]}" --save other --save-interval 1 >/dev/null 2>&1
lm-ckpt sync other others >/dev/null
cp -r c waiting # a training that has not saved a step
rm -r waiting/global_step* waiting/latest
for directory in own copy other others; do cp -r $directory kept-$directory; done
# refused SRC DEST PATTERN
refused() {
    expect 2 "^lm-ckpt: $2: .*$3" lm-ckpt sync "$1" "$2" --keep-last 1 --logs own.log
    for directory in own copy other others; do
        diff -r kept-$directory $directory || fail "sync $1 $2 changed $directory"
    done
}
echo line >own.log
for prefix in "${prefixes[@]}"; do
    [ -z "$prefix" ] || refused own "${prefix}own" fence.json
    refused copy "${prefix}copy" SRC
    refused own "${prefix}other" fence.json
    refused copy "${prefix}other" fence.json
    refused own "${prefix}own/global_step2" global_step2
    refused own "${prefix}own/global_step2/sub" global_step2
    refused own "${prefix}other/global_step1/" global_step1
    refused own "${prefix}others" run
    refused waiting "${prefix}others" run
    # The claims of a training may lack its fence.
    mv own/fence.json fence
    expect 2 "own: .*generation-1" lm-ckpt sync other "${prefix}own"
    mv fence own/fence.json
    # A backup of the training, and of its backup, are accepted, and again.
    for source in own copy own; do
        expect 0 '' lm-ckpt sync $source "${prefix}second-${#prefix}" --keep-last 1
        [ "$(ls -d second-${#prefix}/global_step*)" = second-${#prefix}/global_step2 ] || fail "$(ls second-${#prefix})"
    done
done
refused own own/backup SRC
refused own link/backup SRC
mkdir -p other/sub
cp -r other/global_step* other/latest other/sub
expect 2 '^lm-ckpt: other: .*fence.json' lm-ckpt sync other/sub other --keep-last 1
[ -z "$(find . -name 'sync.tmp.*')" ] || fail "a probe was left"

# A run that has not saved yet: cron's backup is fine, and copies the logs.
mkdir early
cp c/generation-1 c/fence.json early
echo line >early.log
expect 0 'early: ' lm-ckpt sync early backup --logs early.log
[ "$(jq -c '[.copied, .failed, .logs]' out)" = '[[],[],1]' ] || fail "sync: $(cat out)"
expect 0 '' lm-ckpt prune early --keep-last 1
expect 2 ' early: ' lm-ckpt ls early
expect 3 ' early: ' lm-ckpt latest early
# A run that has lost the step that `latest` names, or its manifest: cron's backup alerts, and prune removes nothing.
for lost in 'global_step*' 'global_step*/manifest.json' global_step2 global_step2/manifest.json; do
    rm -rf lost backup
    cp -r c lost
    expect 0 '' lm-ckpt sync lost backup
    # shellcheck disable=SC2086
    (cd lost && rm -r $lost)
    steps=$(echo lost/global_step* backup/global_step*)
    expect 3 ' lost/latest: .*global_step2' lm-ckpt sync lost backup --keep-last 1
    [ "$(jq -c '[(.failed | length), .removed]' out)" = '[1,[]]' ] || fail "sync: $(cat out)"
    ! grep -q 'has not saved' err || fail "sync: $(cat err)"
    expect 3 ' lost/latest: .*global_step2' lm-ckpt prune lost --keep-last 1 --leftovers 0s
    [ "$(echo lost/global_step* backup/global_step*)" = "$steps" ] || fail "lost $lost: $(ls lost backup)"
done
# A backup of which only an interrupted copy exists can be pruned.
rm -rf backup
mkdir -p backup/global_step2.tmp.copy
expect 0 '' lm-ckpt prune backup --leftovers 0s
[ -z "$(ls backup)" ] || fail "left behind: $(ls backup)"
echo "directories of other programs: all as promised"
