#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The simulated step times are close to the measured ones of bench/data. Also tests the forms of the output.
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

python3 "$root/bench/step_times.py" "$bin" --check >table.md || fail "$(tail -n 2 table.md)"
[ "$(grep -c '^| vTrain' table.md)" = 54 ] || fail "$(wc -l table.md)"
# BLOOM's layouts of 192 GPUs are in the measured order.
seconds() { awk -F'|' -v pp="$1" '/BLOOM/ && $6 + 0 == pp { print $11 + 0 }' table.md; }
[ "$(echo "$(seconds 12) < $(seconds 24)" | bc)" = 1 ] || fail "$(grep BLOOM table.md)"

model=(--num-layers 8 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --vocab-size 50304)
step=("${model[@]}" --micro-batch-size 2 --global-batch-size 64 --gpus 16 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
run one.json lm-estimate time "${step[@]}" --gpu a100 --json
[ "$(wc -l <one.json)" = 1 ] || fail "more than one object: $(cat one.json)"
jq -e '.step_s > 0 and .memory_bytes > .memory_state_bytes and .mfu < 1 and .fits' one.json >/dev/null || fail "$(cat one.json)"
[ "$(jq .model_flops_per_token one.json)" = "$(lm-estimate params "${model[@]}" --json | jq '.model_flops_per_token // empty')" ] ||
    fail "operations: $(cat one.json)"
# With --tflops, the JSON has the same counts of operations under the same keys. The text names the formula of each count.
run given.json lm-estimate time "${step[@]}" --tflops 100 --train-samples 64_000 --json
jq -es '.[0].model_flops_per_token == .[1].model_flops_per_token and .[0].iteration_flops == .[1].iteration_flops
    and .[1].iteration_flops > 0' one.json given.json >/dev/null || fail "operations: $(cat one.json given.json)"
for mode in "--tflops 100 --train-samples 64_000" "--gpu a100"; do
    # shellcheck disable=SC2086
    run names.txt lm-estimate time "${step[@]}" $mode
    [ "$(grep -c '^operations per token (model) ' names.txt)" = 1 ] || fail "$(cat names.txt)"
    [ "$(grep -c '^operations per iteration (Megatron) ' names.txt)" = 1 ] || fail "$(cat names.txt)"
done
run parts.json lm-estimate time "${step[@]}" --gpu h100 --json --explain
jq -e -s '.[1] as $p | ($p | [.products_s, .attention_s, .stream_s, .tensor_s, .host_s, .messages_s, .bubble_s, .data_s,
    .optimizer_s] | add) / $p.total_s - 1 | fabs < 1e-9' parts.json >/dev/null || fail "$(cat parts.json)"

# block recomputes one of the four layers of a stage: the time and the memory are between those of none and all.
for method in "" "full --recompute-method block --recompute-num-layers 1" "full --recompute-method uniform"; do
    # shellcheck disable=SC2086
    lm-estimate time "${step[@]}" --bf16 --gpu a100 ${method:+--recompute-granularity $method} --json
done >recompute.json
jq -es '.[0].step_s < .[1].step_s and .[1].step_s < .[2].step_s and .[1].memory_activation_bytes > .[2].memory_activation_bytes' \
    recompute.json >/dev/null || fail "block: $(cat recompute.json)"

# Without a flag, the format is assumed, and the output states it.
run fp16.txt lm-estimate time "${step[@]}" --gpu a100
grep -Eq '^format \(assumed: no --bf16, --fp16\) +fp16$' fp16.txt || fail "$(cat fp16.txt)"
run bf16.txt lm-estimate time "${step[@]}" --bf16 --gpu a100
grep -Eq '^format +bf16$' bf16.txt || fail "$(cat bf16.txt)"

# The text states an assumed trainer; a step that needs too much memory has a warning.
grep -Eq '^trainer \(assumed: no --trainer lm-train\) +megatron$' fp16.txt || fail "$(cat fp16.txt)"
run trainer.txt lm-estimate time "${step[@]}" --gpu a100 --trainer megatron
grep -Eq '^trainer +megatron$' trainer.txt || fail "$(cat trainer.txt)"
[ "$(jq -r .trainer one.json)" = megatron ] || fail "$(cat one.json)"
! grep 'warning: memory:' fp16.txt.err || fail "a warning about memory that fits"
expect 0 'warning: memory: .* [0-9.]+ GiB, .* [0-9.]+ GiB: lm-estimate layout ' \
    lm-estimate time --model 7.5b --micro-batch-size 1 --global-batch-size 64 --gpus 8 --gpu a100

# Megatron-LM needs tensor ranks with equal parts, lm-train does not.
for uneven in "3 --num-attention-heads 16" "4 --num-query-groups 6" "4 --ffn-hidden-size 4098"; do
    read -r ranks flag value <<<"$uneven"
    odd=("${model[@]}" --micro-batch-size 1 --global-batch-size 96 --gpus 96 --gpu a100 --tensor-model-parallel-size "$ranks")
    if [ "$flag" != --num-attention-heads ]; then
        odd+=(--hidden-size 768 --num-attention-heads 12 --group-query-attention --num-query-groups 12 "$flag" "$value")
    fi
    for trainer in "" "--trainer megatron"; do
        # shellcheck disable=SC2086
        expect 2 "--tensor-model-parallel-size: $ranks .*$flag $value" lm-estimate time "${odd[@]}" $trainer
    done
    expect 0 '' lm-estimate time "${odd[@]}" --trainer lm-train
done

# With lm-train's plan, the memory is that of lm-estimate memory with NCCL and the allowance.
run plan.json lm-estimate time "${step[@]}" --bf16 --gpu h100 --trainer lm-train --json
run memory.json lm-estimate memory "${model[@]}" --bf16 --micro-batch-size 2 --global-batch-size 64 \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 16 --gpu-memory 80GB --json
[ "$(jq 'select(.kind == "verdict") | .largest + .allowance + .nccl' memory.json)" = "$(jq .memory_bytes plan.json)" ] ||
    fail "$(cat plan.json memory.json)"

# A length gives the whole training, with each batch of a ramp simulated.
run whole.txt lm-estimate time "${step[@]}" --gpu h100 --train-samples 64_000
grep -Eq '^iterations +1,000$' whole.txt || fail "$(cat whole.txt)"
grep -Eq '^running time ' whole.txt || fail "$(cat whole.txt)"

# Another description of the hardware or the network: a slower network gives a longer step, and errors name the line or the
# choices.
hardware=$root/share/hardware
sed 's/^network_bytes_per_s 100e9/network_bytes_per_s 10e9/' "$hardware/a100.txt" >slow.txt
run slow.json lm-estimate time "${step[@]}" --hardware slow.txt --json
jq -e -n --slurpfile slow slow.json --slurpfile one one.json '$slow[0].step_s > $one[0].step_s' >/dev/null || fail "$(cat slow.json)"
for network in "--network omni-path" "--nics 1" "--network efa --nics 2"; do
    # shellcheck disable=SC2086
    run other.json lm-estimate time "${step[@]}" --gpu a100 $network --json
    jq -e -n --slurpfile other other.json --slurpfile one one.json '$other[0].step_s > $one[0].step_s' >/dev/null ||
        fail "$network: $(cat other.json)"
done
run same.json lm-estimate time "${step[@]}" --gpu a100 --network hdr --nics 4 --json
cmp same.json one.json || fail "a100 has four links of HDR: $(cat same.json)"
expect 2 "--network: 'ib' .* hdr, ndr, omni-path, efa" lm-estimate time "${step[@]}" --gpu a100 --network ib
expect 2 '--nics: .*1, got 0' lm-estimate time "${step[@]}" --gpu a100 --nics 0
sed '/^sms/d' "$hardware/a100.txt" >bad.txt
expect 2 " bad.txt: .*'sms'" lm-estimate time "${step[@]}" --hardware bad.txt
expect 2 '--hardware: slow.txt .*--gpu h100' \
    lm-estimate time "${step[@]}" --hardware slow.txt --gpu h100
expect 2 '--hardware: no.txt ' lm-estimate time "${step[@]}" --hardware no.txt
expect 2 "--gpu: 'b300' .* a100, " lm-estimate time "${step[@]}" --gpu b300
expect 2 '--tflops: .*--gpu' lm-estimate time "${step[@]}" --gpu a100 --tflops 100
expect 2 '--global-batch-size: 64 .* 3 x 4 .* 12' \
    lm-estimate time "${step[@]}" --gpu a100 --micro-batch-size 3
tail -n 1 table.md
