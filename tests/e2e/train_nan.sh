#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Planted NaN and Inf in an activation, a gradient and the loss, in each precision, are noticed at their step, with layer, rank
# and samples. Also tests the policies of --on-nan and --on-spike. $2 is the number of planted faults (by default 6).
# labels: e2e;mpi
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
n_faults=${2:-6}

args=(--mock-data --num-layers 3 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --threads 1 --log-interval 1 --eval-iters 0)
losses() { sed -nE 's/.*iteration +([0-9]+)\/.*(lm loss: [^ ]+).*/\1 \2/p' "$1"; }

# Every kind, value and precision, on one rank or a random rank of two.
kinds=(activation gradient loss)
values=(nan inf)
precisions=("" --bf16 "--fp16 --initial-loss-scale 1024")
RANDOM=${LM_FAULT_SEED:-17}
for ((i = 0; i < n_faults; i++)); do
    kind=${kinds[i % 3]} value=${values[i / 3 % 2]} precision=${precisions[i / 6 % 3]}
    [ "$n_faults" -gt 6 ] || precision=${precisions[i % 3]}
    iteration=$((RANDOM % 6 + 1)) layer=$((RANDOM % 3)) ranks=$((RANDOM % 2 + 1))
    rank=$((RANDOM % ranks))
    launch=()
    [ $ranks = 1 ] || launch=(mpirun -n 2)
    read -ra flags <<<"$precision"
    expect 4 "iteration $iteration: loss " env \
        LM_STEP_FAULT="$kind:$value:$iteration:$rank:$layer" "${launch[@]}" lm-train "${args[@]}" --train-iters 8 "${flags[@]}"
    case $kind in
        activation) object="the attention of layer $layer" ;;
        gradient) object="the gradient of [a-z_]*layers?\.$layer\.[a-z_.]*" ;;
        loss) object="the loss" ;;
    esac
    grep -Eq "$object on rank $rank \($(hostname)\), micro-batch [0-9]+ of samples [0-9]+" err ||
        fail "$kind $value $precision at $iteration, rank $rank of $ranks, layer $layer: $(cat err)"
    [ "$(grep -c ' iteration .* samples per second' out)" = $((iteration - 1)) ] || fail "noticed late: $(cat out)"
done

# With fp16, an overflow of the gradients is not reported as NaN. A gradient that is not finite at any loss scale is reported, even
# while the initial scale makes every step overflow.
fp16=("${args[@]}" --train-iters 40 --fp16)
run overflows.log lm-train "${fp16[@]}" --log-json overflows.json
n_skipped=$(jq -s 'map(select(.kind == "step") | .skipped_iterations) | add' overflows.json)
[ "$n_skipped" -ge 10 ] || fail "$n_skipped overflows from a scale of 2^32"
jq -se 'all(.kind != "nan")' overflows.json >/dev/null || fail "an overflow is an event: $(grep '"nan"' overflows.json)"
expect 4 "iteration 3: loss .*gradient of layers.1.* on rank 0 .* loss scale of 1:" env \
    LM_STEP_FAULT=gradient:inf:3:0:1 lm-train "${fp16[@]}"
# A transient fault in a gradient is distinguished from an overflow: the repeated step is finite at the same scale.
LM_STEP_FAULT=gradient:nan:30:0:1:once run skip.log lm-train "${fp16[@]}" --on-nan skip --log-json skip.json
grep -q 'iteration 30: .*transient, gradient norms: embedding [0-9.]*, layers [0-9.]* nan [0-9.]*, head' skip.log.err ||
    fail "transient: $(cat skip.log.err)"
run never.log lm-train "${fp16[@]}" --skip-train-iteration-range 30-30
diff <(losses never.log) <(losses skip.log) || fail "a skipped batch changes later losses"
grep -q 'nan iterations: *1 ' skip.log || fail "not counted: $(cat skip.log)"

# Both tensor ranks have the gradient of a norm's weight, but the gradient norm of the step includes only that of rank 0. A NaN is
# found on either rank.
for rank in 0 1; do
    expect 4 "iteration 4: loss .*gradient of layers.1.attention.norm.weight on rank $rank" env \
        LM_STEP_FAULT="gradient:nan:4:$rank:1" mpirun -n 2 lm-train "${args[@]}" --train-iters 8 --tensor-model-parallel-size 2
done

# A run that skips a batch has the losses of a run that never had this batch. The log states that the fault was transient.
for precision in "" --fp16; do
    flags=()
    [ -z "$precision" ] || flags=(--fp16 --initial-loss-scale 1024)
    run never.log lm-train "${args[@]}" --train-iters 10 --skip-train-iteration-range 5-5 "${flags[@]}"
    rm -f skip.json
    LM_STEP_FAULT=loss:nan:5:0:0:once run skip.log lm-train "${args[@]}" --train-iters 10 --on-nan skip "${flags[@]}" --log-json skip.json
    diff <(losses never.log) <(losses skip.log) || fail "$precision: a skipped batch changes later losses"
done
grep -q 'iteration 5: .*transient, .*loss of rank 0: .*--on-nan skip' \
    skip.log.err || fail "transient: $(cat skip.log.err)"
expect 0 'iteration 5: .*transient, .*gradient of [a-z0-9.]+' env LM_STEP_FAULT=gradient:nan:5:0:1:once \
    lm-train "${args[@]}" --train-iters 6 --on-nan skip
jq -se '[.[] | select(.kind == "nan")] | length == 1 and .[0].iteration == 5' skip.json >/dev/null || fail "$(cat skip.json)"
grep -q 'nan iterations: *1 ' skip.log || fail "not counted: $(cat skip.log)"

# continue, rollback and --rerun-suspect.
LM_STEP_FAULT=gradient:nan:5:0:1 run continue.log lm-train "${args[@]}" --train-iters 10 --on-nan continue --rerun-suspect
grep -q 'iteration .*(persistent): .*--on-nan continue' continue.log.err || fail "$(cat continue.log.err)"
[ "$(losses continue.log | wc -l)" = 9 ] || fail "continue: $(cat continue.log)"
LM_STEP_FAULT=gradient:nan:5:0:1 run back.log lm-train "${args[@]}" --train-iters 10 --on-nan rollback --save back --save-interval 3
run window.log lm-train "${args[@]}" --train-iters 10 --skip-train-iteration-range 4-5
diff <(losses window.log) <(losses back.log | awk '!seen[$1]++ || $1 > 5' | grep -v '^[45] ') || fail "rollback: other losses"
expect 4 ' rollback: .*iteration 1 ' env LM_STEP_FAULT=gradient:nan:2:0:1 lm-train "${args[@]}" --train-iters 10 \
    --on-nan rollback --save none
# Before the first save, the run goes back to the step of --load, whose run has refused nothing.
rm back/refused-iterations.json
LM_STEP_FAULT=gradient:nan:5:0:1 run moved.log lm-train "${args[@]}" --train-iters 10 --on-nan rollback --load back/global_step3 \
    --save moved --exit-on-missing-checkpoint
[ "$(grep -c "back/global_step3: $resumed 3" moved.log.err)" = 2 ] || fail "$(cat moved.log.err)"
! grep -q 'iteration 0$' moved.log.err || fail "$(cat moved.log.err)"
diff <(losses window.log | tail -n 5) <(losses moved.log | tail -n 5) || fail "rollback to --load: other losses"
# Steps after the present iteration are of another branch: the run goes back to the step that it began with.
run straight.log lm-train "${args[@]}" --train-iters 10 --save straight --save-interval 3
for policy in rollback stop; do cp -r straight branch-$policy; done
LM_STEP_FAULT=gradient:nan:5:0:1 run branch.log lm-train "${args[@]}" --train-iters 10 --on-nan rollback \
    --load branch-rollback/global_step3 --save branch-rollback
[ "$(grep -c "branch-rollback/global_step3: $resumed 3" branch.log.err)" = 2 ] || fail "$(cat branch.log.err)"
diff <(losses window.log | tail -n 5) <(losses branch.log | tail -n 5) || fail "rollback to another branch: other losses"
expect 4 ' --skip-train-iteration-range 5-5, .*--lr' env LM_STEP_FAULT=gradient:nan:5:0:1 \
    lm-train "${args[@]}" --train-iters 10 --load branch-stop/global_step3 --save branch-stop

# --error-injection-rate, which Megatron-LM's own tests use: --rerun-suspect distinguishes the kinds of errors.
inject=(mpirun -n 2 lm-train "${args[@]}" --train-iters 30 --on-nan skip --rerun-suspect --error-injection-rate 10)
run transient.log "${inject[@]}"
[ "$(grep -c ': iteration .*transient' transient.log.err)" -ge 1 ] || fail "$(cat transient.log.err)"
# A rank that computes a NaN where another rank computes a number from the same samples is on a faulty host: whatever --on-nan
# states, the run ends with 3, and the message names the host.
expect 3 '\(persistent\), .*ranks .*: rank [01] on [^ ]+ .*exclude this host' \
    "${inject[@]}" --error-injection-type persistent_error
run correct.log "${inject[@]}" --error-injection-type correct_result
grep -q '(persistent), .*another data-parallel rank' correct.log.err || fail "$(cat correct.log.err)"
events=$(grep -c 'iteration [0-9]*: loss ' transient.log.err)
[ "$events" -lt 10 ] || fail "$events faults in 30 iterations"
[ "$(grep -c 'iteration [0-9]*: loss ' correct.log.err)" = "$events" ] || fail "other iterations than $events"
diff <(losses transient.log) <(losses correct.log) || fail "other losses"

# A spike of the loss.
LM_STEP_FAULT=loss:200:40:0:0:once run spike.log lm-train "${args[@]}" --train-iters 44 --on-spike skip --rerun-suspect --log-json spike.json
run never.log lm-train "${args[@]}" --train-iters 44 --skip-train-iteration-range 40-40
diff <(losses never.log) <(losses spike.log) || fail "a skipped spike changes later losses"
grep -Eq 'iteration 40: spike: loss 5[0-9.]+ \(z-score .*samples 156 to 159, .*embedding .*, head .*: transient: .*loss 4.*--on-spike skip' \
    spike.log.err || fail "spike: $(cat spike.log.err)"
jq -se '[.[] | select(.kind == "spike")] | length == 1 and .[0].iteration == 40 and (.[0].grad_norms | length) == 5' spike.json \
    >/dev/null || fail "$(cat spike.json)"
expect 4 'iteration 40: .*--on-spike stop: .*saved' env LM_STEP_FAULT=loss:50:40:0:0 lm-train "${args[@]}" \
    --train-iters 44 --on-spike stop --save stop
[ "$(head -n1 stop/latest)" = global_step39 ] || fail "--on-spike stop: $(ls stop)"
grep -q ' --skip-train-iteration-range 40-40 ' err || fail "the commands: $(cat err)"

# The line of a NaN names the samples of the batch, and the commands that go back and skip it.
back=("${args[@]}" --train-iters 14 --save commands --load commands --save-interval 5 --async-save off)
expect 4 'iteration 12: .* samples 44 to 47: run lm-ckpt latest commands 10, then .*--skip-train-iteration-range 11-12,' \
    env LM_STEP_FAULT=loss:nan:12:0:0 lm-train "${back[@]}"
eval "$(sed -n 's/.*: run \(lm-ckpt latest [^,]*\), then .*/\1/p' err)" >/dev/null || fail "lm-ckpt latest: exit $?"
flag=$(sed -n 's/.*\(--skip-train-iteration-range [0-9-]*\),.*/\1/p' err)
# The fault is still in the data.
read -ra words <<<"$flag"
LM_STEP_FAULT=loss:nan:12:0:0 run went_on.log lm-train "${back[@]}" "${words[@]}"
run never.log lm-train "${args[@]}" --train-iters 14 "${words[@]}"
diff <(losses never.log | tail -n 2) <(losses went_on.log) || fail "the run after the commands of a NaN: $(cat went_on.log)"
# `latest` names a damaged step, which the run has not loaded: the commands name the step that it has loaded, in quotes.
two=("${args[@]}" --train-iters 14 --save 'my run' --load 'my run')
run two.log lm-train "${two[@]}" --save-interval 5 --exit-iteration 10
for file in 'my run'/global_step10/weights-*; do flip "$file"; done
expect 4 "iteration 12: .*run lm-ckpt latest 'my run' 5, then .*--skip-train-iteration-range 6-12," \
    env LM_STEP_FAULT=loss:nan:12:0:0 lm-train "${two[@]}"
echo "$n_faults planted faults were named with layer, rank and samples"
