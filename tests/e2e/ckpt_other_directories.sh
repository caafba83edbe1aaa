#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt sync, prune, ls and latest on directories that hold no steps of lm-utils: an error with advice, and no DEST. A save
# directory whose run has not saved yet has no fault.
# timeout: 120
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

args=(--mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 4 --train-iters 2)
lm-train "${args[@]}" --save c --save-interval 2 >/dev/null 2>&1

mkdir -p empty megatron/iter_0000010/mp_rank_00 deepspeed/global_step10 hf trainer/checkpoint-10
echo 10 >megatron/latest_checkpointed_iteration.txt
: >megatron/iter_0000010/mp_rank_00/model_optim_rng.pt
echo global_step10 >deepspeed/latest
: >deepspeed/global_step10/mp_rank_00_model_states.pt
echo '{}' >hf/config.json
: >hf/model.safetensors
for case in empty: /usr: megatron:Megatron deepspeed:Megatron 'hf:Hugging Face' 'trainer:Hugging Face'; do
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

# A run that has not saved yet: cron's backup is fine, and copies the logs.
mkdir early
cp c/generation-1 c/fence.json early
echo line >early.log
expect 0 'early: ' lm-ckpt sync early backup --logs early.log
[ "$(jq -c '[.copied, .failed, .logs]' out)" = '[[],[],1]' ] || fail "sync: $(cat out)"
expect 0 '' lm-ckpt prune early --keep-last 1
expect 2 ' early: ' lm-ckpt ls early
expect 3 ' early: ' lm-ckpt latest early
# A backup of which only an interrupted copy exists can be pruned.
rm -rf backup
mkdir -p backup/global_step2.tmp.copy
expect 0 '' lm-ckpt prune backup --leftovers 0s
[ -z "$(ls backup)" ] || fail "left behind: $(ls backup)"
echo "directories of other programs: all as promised"
