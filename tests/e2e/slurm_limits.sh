#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that ends a job of a real Slurm, in one training: the time limit with and without SIGUSR1, an array of short jobs, a
# job that depends on another, the kill switch, and a lost node. No line of the log is missing or different: each iteration has
# the bits of the loss of an undisturbed run, also if it was computed twice.
# labels: proof;mpi
# timeout: 1800
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"

start_hosts 4 2
# The exchange of the gradients takes most of a step, so that the training uses few cores.
slow() { for i in 1 2 3 4; do ip netns exec "$spaces-n$i" tc qdisc add dev eth0 root tbf rate 30mbit burst 100kb latency 200ms; done; }
fast() { for i in 1 2 3 4; do ip netns exec "$spaces-n$i" tc qdisc del dev eth0 root; done; }
slow
mkdir run
# The batch scripts: signal.sbatch passes SIGUSR1 to lm-train, plain.sbatch does not.
cat >train.bash <<'END_OF_SCRIPT'
cd "$RUN" || exit 2
echo "start ${SLURM_RESTART_COUNT:-0} task ${SLURM_ARRAY_TASK_ID:-none} on $SLURM_JOB_NODELIST"
srun --kill-on-bad-exit=1 lm-train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --vocab-size 64 --mock-data \
    --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 --log-interval 1 \
    --train-iters 10_000_000 --save checkpoints --load checkpoints --fresh --save-interval 20 --save-retain keep-last=2 \
    --kill-switch-path stop --exit-before-limit 20s --status-file status.json --log-json log.json $FLAGS &
training=$!
END_OF_SCRIPT
{
    echo '#!/bin/bash'
    cat train.bash
    # shellcheck disable=SC2016
    echo 'wait $training'
} >plain.sbatch
{
    echo '#!/bin/bash'
    cat train.bash
    cat <<'END_OF_SCRIPT'
trap 'kill -USR1 $training; echo "SIGUSR1 after $SECONDS s"' USR1
code=0
wait $training || code=$?
while kill -0 $training 2>/dev/null; do
    code=0
    wait $training || code=$?
done
exit $code
END_OF_SCRIPT
} >signal.sbatch

# submit SCRIPT OPTION...: prints the number of the job. The job has two nodes with two ranks on each.
submit() {
    local script=$1
    shift
    RUN=$PWD/${RUN:-run} FLAGS=${FLAGS:-} on ctl sbatch --parsable --nodes=2 --ntasks-per-node=2 --cpus-per-task=1 --open-mode=append \
        --output="$PWD/job-%A.log" "$@" "$script"
}
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ $SECONDS -lt $until ] || fail "$what: $(on ctl squeue; tail -n 20 ./job-*.log "$box/slurmctld.log")"
        sleep 0.3
    done
}
state() { on ctl scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1; }
exit_code() { on ctl scontrol show job "$1" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p' | head -n 1; }
ended() { [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
# finish JOB CODE: the job ends within its time with this exit code.
finish() {
    wait_for 240 "job $1 does not end" ended "$1"
    [ "$(exit_code "$1")" = "$2" ] || fail "job $1: $(state "$1") with exit code $(exit_code "$1"), wanted $2: $(tail -n 20 job-"$1".log)"
}
iteration() { jq 'if .state == "running" then .iteration else 0 end' run/status.json 2>/dev/null || echo 0; }
# Succeeds when the training has made more than 30 iterations since $mark. At least one save is among them.
trains_on() { [ "$(iteration)" -gt $((mark + 30)) ]; }
mark=0
# report NAME: fails unless the training has saved a later step than at the previous report.
report() {
    local saved
    saved=$(jq .saved_iteration run/status.json)
    [ "$saved" -gt "$mark" ] || fail "$1: saved at $saved, before that at $mark"
    mark=$saved
    echo "$1: saved at iteration $mark"
}

# ---- the time limit -----------------------------------------------------------------------------------------------------
# Without --signal, Slurm sends no warning before it ends the job. lm-train asks Slurm for the end of the job.
job=$(submit plain.sbatch --time=1)
finish "$job" 75
[ "$(state "$job")" = FAILED ] || fail "the limit: $(state "$job")"
report "the time limit without a signal"
job=$(submit signal.sbatch --time=2 --signal=B:USR1@70)
finish "$job" 75
grep -q '^SIGUSR1 after' job-"$job".log || fail "no signal: $(cat job-"$job".log)"
report "the time limit with SIGUSR1"

# ---- an array of slices, and a job after it --------------------------------------------------------------------------------
job=$(submit plain.sbatch --time=1 --array=1-3%1)
after=$(submit plain.sbatch --time=1 --dependency=afterany:"$job")
[ "$(state "$after")" = PENDING ] || fail "the dependent job: $(state "$after")"
for task in 1 2 3; do
    finish "${job}_$task" 75
    report "slice $task of an array"
done
finish "$after" 75
grep -q 'start 0 task none' job-"$after".log || fail "the dependent job: $(cat job-"$after".log)"
report "the job after the array"

# ---- the kill switch --------------------------------------------------------------------------------------------------------
job=$(submit plain.sbatch)
wait_for 120 "no training before the kill switch" trains_on
touch run/stop
finish "$job" 76
report "the kill switch"
job=$(submit plain.sbatch)
finish "$job" 76
grep -q 'stop exists' job-"$job".log || fail "the kill switch is not named: $(cat job-"$job".log)"
rm run/stop

# ---- a lost node --------------------------------------------------------------------------------------------------------------
job=$(submit signal.sbatch --requeue)
wait_for 120 "no training before the node is lost" trains_on
mark=$(iteration)
lost=$(on ctl scontrol show job "$job" | sed -n 's/.*BatchHost=\(n[0-9]*\).*/\1/p')
cut_off "$lost"
wait_for 240 "the job does not start again" grep -qs '^start 1 ' job-"$job".log
wait_for 240 "the training does not continue" trains_on
! grep "^start 1 .*$lost" job-"$job".log || fail "the job starts on the lost node again"
on ctl scancel --batch --signal=USR1 "$job"
finish "$job" 75
heal "$lost"
report "a lost node ($lost)"

# ---- the union of the logs ---------------------------------------------------------------------------------------------------
mkdir whole
fast
job=$(RUN=whole FLAGS="--exit-iteration $mark" submit plain.sbatch)
wait_for 900 "the undisturbed run does not end" ended "$job"
[ "$(head -n 1 whole/checkpoints/latest)" = "global_step$mark" ] || fail "the undisturbed run: $(tail -n 5 job-"$job".log)"
# losses RUN: "iteration loss gradient-norm" of each line, all digits of the doubles.
losses() { jq -r 'select(.kind == "step") | "\(.iteration) \(.lm_loss) \(.grad_norm)"' "$1/log.json"; }
losses whole >whole.losses
losses run | sort -n | uniq >union
[ "$(wc -l <whole.losses)" = "$mark" ] || fail "the undisturbed run has $(wc -l <whole.losses) lines, not $mark"
cmp whole.losses union || fail "other losses: $(diff whole.losses union | head)"
lm-ckpt diff "whole/checkpoints/global_step$mark" "run/checkpoints/global_step$mark" >differences || fail "other bits: $(cat differences)"
n_lines=$(losses run | wc -l)
echo "$mark iterations in $(jq .generation run/status.json) starts, $((n_lines - mark)) of them computed twice: all losses, gradient norms and weights have the bits of an undisturbed run"
