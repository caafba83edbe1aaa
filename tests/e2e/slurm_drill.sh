#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The drill: a training under share/slurm/train.sbatch and the checks of share/cron on a real Slurm, with faults in random
# order. No person intervenes: the array continues after each fault, and the training ends with the bits of an undisturbed run that
# skips the same batches. Each alert that a fault must raise comes within two periods of the checks, and no other alert comes.
# $2 is the number of faults (3 by default; fewer than 20 faults are of kinds that recover fast), $3 the seed (1 by default), and
# $4 the number of simulated quiet days (by default 0, which simulates three hours). Prints a report.
# labels: long;mpi
# timeout: 900
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"
share=$(realpath "$here/../../share")
n_faults=${2:-3} seed=${3:-1} quiet_days=${4:-0}
period=10 # seconds between two runs of a check
RANDOM=$seed
# shellcheck source=tests/e2e/drill_quiet.bash
. "$here/drill_quiet.bash"
# shellcheck source=tests/e2e/drill_faults.bash
. "$here/drill_faults.bash"

# ---- the cluster: three nodes that train, one that runs the checks, and a small file system for the checkpoints ---------
mkdir disk
mount -t tmpfs -o size=64m,mode=755 tmpfs disk 2>mount.err || skip_slurm "no file system: $(cat mount.err)"
# shellcheck disable=SC2016
at_exit 'umount -l "$work/disk"; rm -rf "$work"'
start_hosts 4 2
# shellcheck disable=SC2016
at_exit 'end_checks; umount -l "$work/disk"; stop_hosts'
on ctl scontrol update PartitionName=box Nodes=n1,n2,n3
on ctl scontrol create PartitionName=checks Nodes=n4 State=UP
# The exchange of the gradients takes most of a step, so that the training uses few cores.
slow() { for i in 1 2 3; do ip netns exec "$spaces-n$i" tc qdisc add dev eth0 root tbf rate 30mbit burst 100kb latency 200ms; done; }
fast() { for i in 1 2 3; do ip netns exec "$spaces-n$i" tc qdisc del dev eth0 root; done; }

# ---- the training ---------------------------------------------------------------------------------------------------------
run=$work/disk/run status=$run/status.json
mkdir shim
cat >shim/lm-train <<END
#!/bin/bash
[ ! -s "$work/armed" ] || export LM_STEP_FAULT=\$(cat "$work/armed")
[ ! -e "$work/clock" ] || export LD_PRELOAD=$clock_library FAKETIME_TIMESTAMP_FILE=$work/clock FAKETIME_CACHE_DURATION=1 DONT_FAKE_MONOTONIC=1
exec nice -n 19 "$bin/lm-train" "\$@"
END
chmod +x shim/lm-train
training=(--mock-data --vocab-size 500 --num-layers 2 --hidden-size 48 --num-attention-heads 4 --seq-length 32
    --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 --log-interval 5
    --train-iters 1_000_000 --save-interval 20 --save-retain keep-last=5 --distributed-timeout-minutes 0.25 --on-nan skip)
# submit RUN OPTION... -- FLAG...: options of sbatch, flags of lm-train; prints the number of the job.
submit() {
    local run=$1 options=()
    shift
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    PATH=$work/shim:$PATH TENSOR_PARALLEL=1 PIPELINE_PARALLEL=1 RUN_DIRECTORY=$run on ctl sbatch --parsable --partition=box \
        --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 --job-name=drill --output="$work/%x-%A.log" "${options[@]}" \
        "$share/slurm/train.sbatch" "${training[@]}" "$@"
}

# ---- the checks, as jobs that submit each other -----------------------------------------------------------------------------
cat >sendmail <<END
#!/bin/sh
sed -n "s/^Subject: /\$(date +%s) /p" >>"$work/mails"
END
chmod +x sendmail
: >mails
cat >site.conf <<END
PATH=$PATH
export SLURM_CONF=$SLURM_CONF
JOB_NAME=drill
RUN_DIRECTORY=$run
STATUS_FILE=$status
STATE_DIRECTORY=$work/state
MAIL_TO=oncall@localhost
SENDMAIL=$work/sendmail
BURNED_STARTS=6
SLACK_SECONDS=0
FS_PATHS=$work/disk
FS_PERCENT=80
FS_DAYS=0
END
mkdir checks guard
printf '#!/bin/sh\nexec %s/cron/alert %s watchdog\n' "$share" "$work/site.conf" >checks/watchdog
printf '#!/bin/sh\nexec %s/cron/alert %s fs-watch\n' "$share" "$work/site.conf" >guard/fs-watch
chmod +x checks/watchdog guard/fs-watch
start_checks() {
    SBATCH_PARTITION=checks CRON_SCRIPT=$share/cron/cron.sbatch CRON_CHAINS="$period:checks $period:guard" \
        on ctl sbatch --parsable "$share/cron/cron.sbatch" $period checks >/dev/null
}
end_checks() { on ctl scancel --partition=checks --user root 2>/dev/null || true; }

# ---- the drill --------------------------------------------------------------------------------------------------------------
array=$(FRESH=1 submit "$run" --array=1-1000%1 --)
slow
start_checks
until grep -qs '"state": "running"' "$status"; do sleep 0.2; done
started=$SECONDS
plan "$n_faults" >faults
: >report
: >nan_iterations
while read -r kind <&3; do inject "$kind"; done 3<faults
elapsed=$((SECONDS - started))

# The array ends by the kill switch; the undisturbed run trains to the same iteration.
wait_for 120 "the training does not run" trains_on
on ctl scancel --state=PENDING "$array"
on ctl scancel --batch --signal=USR1 "$(running_job)" || true
wait_for 120 "the training does not stop" no_jobs
end_checks
last=$(jq .saved_iteration "$status")
n_starts=$(jq .generation "$status")
fast
rm -f armed clock
skips=()
while read -r iteration; do skips+=("$iteration-$iteration"); done <nan_iterations
[ ${#skips[@]} = 0 ] || skips=(--skip-train-iteration-range "${skips[@]}")
FRESH=1 submit "$work/whole" -- "${skips[@]}" --exit-iteration "$last" --save-interval 1_000_000 >/dev/null
wait_for 1200 "the undisturbed run does not end" no_jobs
[ "$(head -n 1 whole/latest)" = "global_step$last" ] || fail "the undisturbed run: $(tail -n 5 drill-*.log)"
lm-ckpt diff "whole/global_step$last" "$run/global_step$last" >differences || fail "other bits after $n_faults faults: $(cat differences)"
[ -z "$(find "$run" -name '*.tmp*')" ] || fail "left behind: $(find "$run" -name '*.tmp*')"

print_report
quiet "$quiet_days"
[ ! -s wrong ] || fail "$(cat wrong)"
