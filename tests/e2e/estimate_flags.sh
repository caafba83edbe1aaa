#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every verb of lm-estimate accepts a command line of lm-train, and both compute the same figures.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

cat >ds.json <<'END'
{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true}, "steps_per_print": 10}
END
line=(--model bloom-176b --data-path corpus_text_document --vocab-size 250680 --bf16
    --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 --micro-batch-size 2 --global-batch-size 2048
    --rampup-batch-size 192 16 9_765_625 --train-samples 220_000_000 --lr 6e-5 --min-lr 6e-6 --lr-decay-style cosine
    --lr-decay-samples 200_000_000 --lr-warmup-samples 183_105 --clip-grad 1.0 --weight-decay 1e-1
    --checkpoint-activations --use-distributed-optimizer --overlap-grad-reduce --deepspeed --deepspeed_config ds.json
    --distributed-backend nccl --num-workers 2 --tokenizer-type PretrainedFromHF --tokenizer-name-or-path bigscience/tokenizer
    --save checkpoints --save-interval 100 --load checkpoints --log-interval 10 --eval-interval 1000 --eval-iters 1
    --exit-duration-in-mins 1190 --tensorboard-dir tb --log-json log.json --data-order megatron --threads 1)
for verb in params memory batch checkpoint "time --gpus 384 --tflops 149" "layout --gpus 384 --gpu-memory 80GB"; do
    read -ra words <<<"$verb"
    run "${words[0]}.txt" lm-estimate "${words[@]}" "${line[@]}"
done
[ "$(grep -c "ignored: " params.txt.err)" -le 2 ] || fail "a note for each flag: $(cat params.txt.err)"
expect 2 '--context-parallel-size: ' lm-estimate memory "${line[@]}" --context-parallel-size 2
expect 2 '--clip-gard: .*--clip-grad' lm-estimate time --clip-gard 1
grep -q 'warning: .*--world-size' memory.txt.err || fail "one replica in silence: $(cat memory.txt.err)"

# The optimizer's state does not fit for one replica, but fits when it is sharded over 8. lm-train plans the same bytes.
shape=(--model bloom-176b --bf16 --tensor-model-parallel-size 4 --pipeline-model-parallel-size 12 --micro-batch-size 2
    --checkpoint-activations --global-batch-size 2048 --threads 1 --device cpu)
expect 1 '' lm-estimate memory "${shape[@]}" --gpu-memory 80GB
for zero in "--zero-stage 0" "--zero-stage 1" --use-distributed-optimizer; do
    read -ra words <<<"$zero"
    lm-estimate memory "${shape[@]}" "${words[@]}" --world-size 384 --json >estimate.json 2>/dev/null
    lm-train "${shape[@]}" "${words[@]}" --world-size 384 --mock-data --train-iters 1 --lr 1e-4 --dry-run >plan.txt 2>plan.err ||
        fail "$zero: $(cat plan.err)"
    for stage in 0 5 11; do
        bytes=$(jq -r "select(.kind == \"rank\" and .pp_rank == $stage).total" estimate.json)
        gib=$(awk -v b="$bytes" 'BEGIN { printf "%.1f GiB", b / 2 ^ 30 }')
        grep -Eq "stage $stage .*; $gib\$" plan.txt || fail "$zero: stage $stage: not $gib: $(grep "stage $stage " plan.txt)"
    done
done
run fits.txt lm-estimate memory "${shape[@]}" --zero-stage 1 --world-size 384 --gpu-memory 80GB
grep -Eq '^fits +yes$' fits.txt || fail "$(cat fits.txt)"
expect 2 '--world-size: 100 .* 4 tensor x 12 pipeline' lm-estimate memory "${shape[@]}" --world-size 100

# The parts of the plan's memory add up to its total.
awk '/^ > memory/ {
    unit["KiB"] = 1 / 1024; unit["MiB"] = 1; unit["GiB"] = 1024
    gsub(/[,:]/, "")
    total = $3 * unit[$4]
    for (i = 5; i <= NF; i++) if ($i ~ /^[KMG]iB$/) sum += $(i - 1) * unit[$i]
    if (sum < 0.99 * total || sum > 1.01 * total) { print "the parts sum up to " sum " MiB, not " total; exit 1 }
}' plan.txt || fail "$(grep memory plan.txt)"

# The plan goes to stdout; with --print-config the configuration does.
lm-train "${shape[@]}" --zero-stage 1 --world-size 384 --mock-data --train-iters 1 --lr 1e-4 --dry-run --print-config \
    --exit-interval 5 --save x --eval-interval 7 >config.json 2>config.err || fail "$(cat config.err)"
grep -q '^ > training' config.err || fail "no plan: $(cat config.err)"
jq -e '.parallel.data_parallel_size == 8 and .parallel.zero_stage == 1 and .parallel.recompute_granularity == "full" and
    .stopping.exit_interval == 5 and .validation.eval_interval == 7 and .logging.log_interval == 100 and
    .checkpoints.save == "x"' config.json >/dev/null || fail "configuration: $(cat config.json)"

# With a batch ramp, both programs count the same iterations, whether the length is given in samples, iterations or tokens.
common=(--model gpt2-124m --global-batch-size 64 --rampup-batch-size 16 16 1000 --micro-batch-size 1)
for length in "--train-samples 10000" "--train-iters 300" "--train-tokens 5M"; do
    read -ra words <<<"$length"
    ours=$(lm-estimate batch "${common[@]}" "${words[@]}" --json 2>/dev/null | jq -r 'select(.kind == "total").iterations')
    lm-train "${common[@]}" "${words[@]}" --mock-data --lr 1e-4 --dry-run --device cpu >plan.txt 2>/dev/null
    grep -q "^ > training *$ours iterations" plan.txt || fail "$length: not $ours: $(grep training plan.txt)"
done
echo "lm-estimate takes lm-train's command line"
