#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate time with failures, energy and cost. Plans with an unusual value get a warning that states the value.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

run=(--num-layers 80 --hidden-size 8192 --num-attention-heads 64 --seq-length 4096 --vocab-size 32000 --init-method-std 0.007
    --global-batch-size 1024 --train-iters 100_000 --gpus 1024 --tflops 400)
fail_flags=(--mttf 7.9h --save-time 40s --restart-time 15m)
lm-estimate time "${run[@]}" "${fail_flags[@]}" --json >a.json 2>err || fail "$(cat err)"
[ ! -s err ] || fail "warnings of a usual plan: $(cat err)"
# value FILE KIND KEY
value() { jq -r "select(.kind == \"$2\") | $3" "$1"; }
near() { awk -v a="$1" -v b="$2" -v e="$3" 'BEGIN { d = a / b - 1; exit !(d < e && d > -e) }' || fail "$1, not $2"; }

# The simulated runs and the closed form agree within 2 %; the parts add up.
near "$(value a.json goodput .total)" "$(value a.json goodput .closed_form)" 0.02
near "$(value a.json goodput '.work + .saving + .repeated + .restarting')" "$(value a.json goodput .running)" 1e-9
near "$(value a.json goodput .young)" "$(awk 'BEGIN { print sqrt(2 * 40 * 7.9 * 3600) }')" 1e-5
near "$(value a.json goodput .best_interval)" "$(value a.json goodput .daly)" 0.35
near "$(value a.json goodput .work)" "$(value a.json time .steps)" 1e-9
lm-estimate time "${run[@]}" "${fail_flags[@]}" --json >b.json
cmp a.json b.json || fail "two calls differ"
# A published rate is scaled to the GPUs: 54 days / 419 x 16384 / 1024.
lm-estimate time "${run[@]}" --failures llama3-405b --save-time 40s --json >b.json
near "$(value b.json goodput .mttf)" "$(awk 'BEGIN { printf "%.12g", 54 * 86400 / 419 * 16 }')" 1e-9
# Measured times.
printf '7h\n9h # a node\n' >times.txt
lm-estimate time "${run[@]}" --failure-times times.txt --save-time 40s --json >b.json
near "$(value b.json goodput .mttf)" 28800 1e-9
# The closed form holds only for a constant rate.
[ "$(value b.json goodput .closed_form)" = null ] || fail "a closed form of measured times: $(cat b.json)"
lm-estimate time "${run[@]}" "${fail_flags[@]}" --failure-shape 0.7 >weibull.txt
if grep -q 'closed form' weibull.txt; then fail "a closed form of a Weibull distribution: $(cat weibull.txt)"; fi
# Limits of jobs: the queue is part of the time, but not of the energy.
jobs=(--exit-duration-in-mins 1200 --queue-gap 2h)
lm-estimate time "${run[@]}" "${fail_flags[@]}" "${jobs[@]}" --hours-per-day 20 --watts 1000 --json >b.json
near "$(value b.json goodput .total)" "$(value b.json goodput .closed_form)" 0.02
near "$(value b.json goodput .queue)" "$(value b.json goodput '.job_stops * 7200')" 1e-9
near "$(value b.json time .calendar)" "$(value b.json goodput '.total * 1.2')" 1e-9
near "$(value b.json energy .gpu_hours)" "$(value b.json goodput '.running * 1024 / 3600')" 1e-9
near "$(value b.json energy .energy_kwh)" "$(value b.json energy .gpu_hours)" 1e-9

# Energy and cost by hand: 1024 GPUs x 1.5 kW x hours x PUE 1.2.
lm-estimate time "${run[@]}" --watts 1500 --pue 1.2 --price 2.50 --carbon 50 --json >b.json
kwh=$(awk -v s="$(value b.json time .running)" 'BEGIN { printf "%.9g", 1024 * 1.5 * s / 3600 * 1.2 }')
near "$(value b.json energy .energy_kwh)" "$kwh" 1e-6
near "$(value b.json energy .cost)" "$(awk -v s="$(value b.json time .running)" 'BEGIN { print 1024 * s / 3600 * 2.5 }')" 1e-4
near "$(value b.json energy .co2_kg)" "$(awk -v k="$kwh" 'BEGIN { print k * 0.05 }')" 1e-4
lm-estimate time "${run[@]}" --watts 1500 --pue 1.2 --price 0.15/kWh --json >b.json
near "$(value b.json energy .cost)" "$(awk -v k="$kwh" 'BEGIN { print k * 0.15 }')" 1e-4
lm-estimate time "${run[@]}" --watts 1500 --pue 1.2 --price 0.15/kwh --json >c.json
cmp b.json c.json || fail "a unit in small letters: $(cat c.json)"
# The description of the hardware gives the power of a GPU.
lm-estimate time "${run[@]:0:16}" --gpus 1024 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 8 --gpu a100 --json >b.json 2>/dev/null
near "$(value b.json energy .energy_kwh)" "$(value b.json energy '.gpu_hours * 0.812')" 1e-9

# Warnings.
warns() { # PATTERN ARGUMENTS...
    local pattern=$1
    shift
    lm-estimate "$@" >out 2>err || true
    grep -Eq "warning: .*$pattern" err || fail "$*: no '$pattern' in: $(cat err)"
}
warns ' 20000 iterations, .* [0-9]+ iter' time "${run[@]}" "${fail_flags[@]}" --save-interval 20000
lm-estimate time "${run[@]}" "${fail_flags[@]}" --save-interval "$(value a.json goodput .best_interval_iterations)" >out 2>err
[ ! -s err ] || fail "the best interval: $(cat err)"
warns ' 25.0 %' time "${run[@]}" --eval-interval 100 --eval-iters 100
lm-estimate time "${run[@]}" --eval-interval 1000 --eval-iters 100 >out 2>err
[ ! -s err ] || fail "evaluations of 3 %: $(cat err)"
model=(--hidden-size 4096 --num-attention-heads 32 --seq-length 2048)
warns '--hidden-size 4096 / --num-layers 8 = 512: ' params --num-layers 8 "${model[@]}"
warns '--hidden-size 4096 / --num-layers 100 = 41: ' params --num-layers 100 "${model[@]}"
warns '--init-method-std 0.02 .* 0.00988' params --num-layers 32 "${model[@]}"
warns '--vocab-size 50257 .* 1.9 % .* 51200' params --num-layers 32 "${model[@]}" --tensor-model-parallel-size 8
warns '--hidden-size 4096 / --num-layers 8 = 512: ' memory --num-layers 8 "${model[@]}"
warns '--vocab-size 50257 .* 1.9 % .* 51200' layout --num-layers 32 "${model[@]}" --bf16 --gpus 8 --global-batch-size 64 \
    --tensor-model-parallel-size 8
# A dry run of lm-train prints the warnings too. A batch of an evaluation takes a third of a step.
tiny=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 128 --mock-data --micro-batch-size 1
    --global-batch-size 1 --train-iters 1000 --lr 1e-3 --eval-interval 100)
expect 0 '--hidden-size 64 / --num-layers 2 = 32: ' lm-train "${tiny[@]}" --eval-iters 100 --dry-run
grep -q '^lm-train: warning: --eval-interval: .*25.0 %' err || fail "$(cat err)"
expect 0 '' lm-train "${tiny[@]}" --eval-iters 10 --dry-run
if grep -q 'warning: --eval-interval' err; then fail "3 % of evaluations: $(cat err)"; fi
# A named model has its published initialization, which gets no warning unless the flag is given.
for name in llama-70b gpt3-13b bloom-176b; do
    lm-estimate params --model $name >out 2>err
    if grep -q 'warning: .*init-method-std' err; then fail "$name: $(cat err)"; fi
done
warns '--init-method-std 0.03 .* 4.3 ' params --model llama-70b --init-method-std 0.03
lm-estimate params --num-layers 32 "${model[@]}" --init-method-std 0.01 >out 2>err
[ ! -s err ] || fail "a usual model: $(cat err)"
warns '--save: .* 5000 checkpoints .* 105 TiB' checkpoint --model 1.7b --bf16 --save here --train-iters 5_000_000 \
    --global-batch-size 8 --save-interval 1000

# One line for each wrong input.
expect 2 '--mttf: .*--save-time' lm-estimate time "${run[@]}" --mttf 3h
expect 2 '--mttf: .*length' lm-estimate time "${run[@]:0:14}" --gpus 1 --tflops 1 --mttf 3h
expect 2 '--failures: .*--mttf' \
    lm-estimate time "${run[@]}" "${fail_flags[@]}" --failures rsc-8
expect 2 '--failure-times: .*--failures' \
    lm-estimate time "${run[@]}" --failures rsc-8 --failure-times times.txt --save-time 1s
expect 2 '--failures: .*--save-time' lm-estimate time "${run[@]}" --failures rsc-8
expect 2 '--failures: .*length' lm-estimate time "${run[@]:0:14}" --gpus 1 --tflops 1 --failures rsc-8
expect 2 '--mttf: .*0, got 0' lm-estimate time "${run[@]}" --mttf 0 --save-time 40s
for flag in "--restart-time 15m" "--failure-shape 0.7"; do
    # shellcheck disable=SC2086
    expect 2 "${flag% *}: .*--mttf, --failures or --failure-times" lm-estimate time "${run[@]}" $flag
done
expect 2 '--save-time: .*--save-interval, .*--mttf, --failures and --failure-times' lm-estimate time "${run[@]}" --save-time 40s
expect 2 '--eval-sets: .*--eval-interval' lm-estimate time "${run[@]}" --eval-sets 3
expect 2 "--failures: 'rsc-9' .* llama3-405b, rsc-1024" lm-estimate time "${run[@]}" --failures rsc-9 --save-time 1s
expect 2 '--mttf: .* 1 min 00 s, .* 100 ' \
    lm-estimate time "${run[@]}" --mttf 1m --save-time 40s --restart-time 15m
expect 2 '--exit-duration-in-mins: .* 10 min 00 s ' lm-estimate time "${run[@]}" "${fail_flags[@]}" --exit-duration-in-mins 10
expect 2 '--failure-shape: .* 0.2 to 10' lm-estimate time "${run[@]}" "${fail_flags[@]}" --failure-shape 0
echo x >times.txt
expect 2 ' times.txt:1: ' lm-estimate time "${run[@]}" --failure-times times.txt --save-time 1s
expect 2 '--pue: .*--gpu, or --watts' lm-estimate time "${run[@]}" --pue 1.2
for flag in "--hours-per-day 20" "--watts 1000" "--pue 1.2" "--price 2" "--carbon 50"; do
    # shellcheck disable=SC2086
    expect 2 "${flag% *}: .*length" lm-estimate time "${run[@]:0:14}" --gpus 1 --gpu a100 $flag
done
expect 2 '--carbon: .*--gpu, or --watts' lm-estimate time "${run[@]}" --carbon 50
for price in 2/day /kWh 2,50 two 2/kWh/h; do
    expect 2 "--price: .* 0.15/kWh, got $price" \
        lm-estimate time "${run[@]}" --price $price
done
expect 2 '--watts: .*0' lm-estimate time "${run[@]}" --watts 0
