#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The flags of a published Megatron script (tr1-13B, a smaller model): lm-train accepts those it implements,
# notes those without a meaning here, and refuses by name those that would change results.
set -euo pipefail
train=$1/bin/lm-train
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

die() { echo "megatron_flags: $*"; cat "$dir/err"; exit 1; }

# shellcheck disable=SC2054
script=(
    --distributed-backend nccl --num-layers 2 --hidden-size 64 --num-attention-heads 4
    --ffn-hidden-size 256 --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1
    --rampup-batch-size 16 16 5_000 --global-batch-size 64 --train-samples 30_000
    --optimizer adam --adam-beta1 0.9 --adam-beta2 0.999 --adam-eps 1e-8 --lr 1e-4 --min-lr 1e-5
    --lr-decay-style cosine --lr-decay-samples 20_000 --lr-warmup-samples 200 --clip-grad 1.0
    --weight-decay 1e-1 --clip-grad 1.0 --seed 42 --init-method-std 0.02
    --exit-duration-in-mins 1190 --log-interval 10 --save-interval 1500 --eval-interval 1000
    --eval-iters 5 --tensorboard-dir "$dir/tb" --tensorboard-queue-size 5
    --log-batch-size-to-tensorboard --log-validation-ppl-to-tensorboard
    --save "$dir/checkpoints" --mock-data --data-impl mmap --split 949,50,1
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 --use-flash-attn
    --no-masked-softmax-fusion --attention-softmax-in-fp32 --num-workers 2)

"$train" "${script[@]}" --print-config >"$dir/out" 2>"$dir/err" || die "the script is refused"
for flag in --distributed-backend --data-impl --use-flash-attn \
    --no-masked-softmax-fusion --attention-softmax-in-fp32 --num-workers; do
    [ "$(grep -c "^lm-train: note: $flag: ignored: " "$dir/err")" = 1 ] || die "no note of $flag"
done
[ "$(grep -c 'ignored' "$dir/err")" = 6 ] || die "other notes than expected"

# A flag without effect is noted, with any values.
for more in "--ckpt-format torch_dist" --auto-detect-ckpt-format "--local-rank 0" "--local_rank 0" --manual-gc \
    "--manual-gc-interval 5" --exit-signal-handler --cross-entropy-loss-fusion "--num-dataset-builder-threads 4" \
    --no-create-attention-mask-in-dataloader "--wandb-project p" "--timing-log-option minmax" "--rerun-mode disabled" \
    --tp-comm-overlap --contigious-checkpointing --synchronize-each-layer "--recompute-modules core_attn mlp"; do
    read -ra words <<<"$more"
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || die "$more: refused"
    grep -Eq "^lm-train: note: ${words[0]//_/[-_]}: ignored: " "$dir/err" || die "$more: no note"
done
# A flag with an effect is refused with a remedy, and no suggestion names a refused flag.
while read -r name reason; do
    code=0
    "$train" "${script[@]}" "$name" 1 --print-config >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || die "$name: exit $code"
    grep -q -- "^lm-train: $name: .*$reason" "$dir/err" || die "$name: says something else"
done <<'END'
--model-parallel-size --tensor-model-parallel-size
--ckpt-step --load DIR
--skip-train lm-ckpt score
--moe-grouped-gemm experts
--moe-router-of-tomorrow experts
--mid-level-dataset-surplus samples
--most-recent-k --save-retain keep-last=K
--use-torch-fsdp2 weights
--tp --tensor-model-parallel-size or --pipeline-model-parallel-size
--fp32 unknown
END
# Other spellings of flags, and their values in the configuration.
# configured JQ-FILTER ARGUMENT...
configured() {
    local filter=$1
    shift
    "$train" "${script[@]}" "$@" --print-config >"$dir/out" 2>"$dir/err" || die "$*: refused"
    jq -e "$filter" "$dir/out" >/dev/null || die "$*: $filter: $(jq -c '.schedule, .parallel, .checkpoints' "$dir/out")"
}
configured '.schedule.iterations_to_skip == [1, 8, 9] and .schedule.skip_train_iteration_range == []' --iterations-to-skip 1 8 9
configured '.checkpoints.load == "r/global_step7"' --load r --ckpt-step 7
configured '.schedule.decoupled_lr == 2e-4 and .schedule.decoupled_min_lr == 1e-5' --decoupled-lr 2e-4
configured '.schedule.start_weight_decay == 0.01 and .schedule.weight_decay_incr_style == "linear"' \
    --start-weight-decay 0.01 --end-weight-decay 0.1 --weight-decay-incr-style linear
configured '.model.vocab_size == 1000' --tokenizer-type NullTokenizer --vocab-size 1000
for more in "--save-retain-interval 1499" "--save-retain-interval 3000 --save-retain keep-last=2" \
    "--load r/global_step7 --ckpt-step 7" "--tokenizer-type NullTokenizer" "--decoupled-min-lr 1e-5" \
    "--start-weight-decay 0.1" "--decoder-first-pipeline-num-layers 1" "--step-batch-size-schedule 0:16"; do
    read -ra words <<<"$more"
    code=0
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || die "$more: exit $code"
done
configured '.checkpoints.save_interval == 1500' --save-retain-interval 3000
# A rate of 0 transforms no document, however the flags of the transformation are set.
for more in "--fim-rate 0" "--fim-data --fim-rate 0.0 --fim-spm-rate 0.5" "--fim-rate=0 --fim-split-sample 5 --fim-prefix-token <fim>"; do
    read -ra words <<<"$more"
    configured '.model.num_layers > 0' "${words[@]}"
done
for more in "--fim-data" "--fim-data --fim-rate 0.5" "--fim-spm-rate 0.5" "--fim-data --fim-rate=0.5"; do
    read -ra words <<<"$more"
    code=0
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || die "$more: exit $code"
done
mkdir "$dir/empty"
code=0
"$train" "${script[@]}" --load "$dir/empty" --exit-on-missing-checkpoint --dry-run >"$dir/out" 2>"$dir/err" || code=$?
[ $code = 2 ] || die "--exit-on-missing-checkpoint: exit $code"
grep -q "^lm-train: $dir/empty: .*--exit-on-missing-checkpoint" "$dir/err" || die "an empty --load"

for more in --bf16 --async-save "--async-save off" "--fp16 --loss-scale 12" "--fp16 --initial-loss-scale 4096 --hysteresis 1" --swiglu \
    "--position-embedding-type alibi --embed-layernorm" "--use-rotary-position-embeddings --normalization RMSNorm"; do
    read -ra words <<<"$more"
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || die "$more: refused"
done
for more in "--loss-scale 0 --fp16" \
    --apply-residual-connection-post-layernorm "--context-parallel-size 2" \
    "--tensor-model-parallel-size 2" "--optimizer sgd"; do
    read -ra words <<<"$more"
    code=0
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || die "$more: exit $code"
    grep -q "^lm-train: ${words[0]}: " "$dir/err" || die "$more: not named"
    [ ! -s "$dir/out" ] || die "$more: a configuration in spite of it"
done
[ ! -e "$dir/checkpoints" ] || die "--print-config made a directory"
# Flags for what lm-train always does, and Megatron-LM's names of --local-save.
for more in --log-straggler "--straggler-minmax-count 4" --check-for-spiky-loss --check-for-large-grads --replication "--replication-jump 8" \
    "--replication-factor 2" "--non-persistent-local-ckpt-algo atomic" "--gpu-sniff-test-interval 100"; do
    read -ra words <<<"$more"
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || die "$more: refused"
    grep -q "^lm-train: note: ${words[0]}: ignored: " "$dir/err" || die "$more: no note"
done
configured '.checkpoints.local_save == "shm" and .checkpoints.local_save_interval == 20' --non-persistent-ckpt-type local \
    --non-persistent-local-ckpt-dir shm --non-persistent-save-interval 20 --replication --replication-jump 8
for more in "--non-persistent-ckpt-type global" "--non-persistent-ckpt-type in_memory" "--replication-factor 3"; do
    read -ra words <<<"$more"
    code=0
    "$train" "${script[@]}" "${words[@]}" --print-config >"$dir/out" 2>"$dir/err" || code=$?
    [ $code = 2 ] || die "$more: exit $code"
done
