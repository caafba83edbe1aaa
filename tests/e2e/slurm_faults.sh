#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What share/slurm/train.sbatch survives, with a stand-in for lm-train in a real Slurm of hosts of their own: a damaged newest step, a
# disk that is full for the files of the job, too, a host without the directory of the submission, planted directories and links, an
# array without %1, a controller that does not answer, ranks that hang after an end that needs a person, and the loss of the host
# that runs the batch script.
# labels: proof;mpi
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/slurm_hosts.bash
. "$here/slurm_hosts.bash"
share=$(realpath "$here/../../share")
# Like most clusters, this Slurm counts memory, which a step keeps while a node of it does not answer.
printf '%s\n' SelectTypeParameters=CR_CPU_Memory DefMemPerCPU=250 >settings
slurmd_timeout=15 start_hosts 4 4 "$work/settings"
export PAUSE_SECONDS=0 FRESH=1
mkdir stand-in

# submit NAME OPTION...: prints the number of the job, whose log is NAME-JOB.log.
submit() {
    local name=$1
    shift
    RUN_DIRECTORY=${run:-$work/$name} PATH=$work/stand-in:$PATH on ctl sbatch --parsable --job-name="$name" --cpus-per-task=1 \
        --ntasks-per-node=1 --output="$work/$name-%A.log" "$@" "$share/slurm/train.sbatch"
}
# lm_train: the stand-in; $WORK is the directory of this test.
lm_train() { { echo '#!/bin/bash' && echo "WORK=$work" && cat; } >stand-in/lm-train && chmod +x stand-in/lm-train; }
wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < until)) || fail "$what: $(on ctl squeue; on ctl sinfo -N; tail -n 40 "$work"/*-"$job".log "$box/slurmctld.log")"
        sleep 0.2
    done
}
no_jobs() { [ -z "$(on ctl squeue -h)" ]; }
end() { wait_for 60 "the jobs do not end" no_jobs; }
log_has() { grep -qs -- "$1" "$work"/*-"$job".log; }
starts() { cat "$work"/*-"$job".log 2>/dev/null | grep -c '^start' || true; }
# now JOB: a requeued job does not wait for two minutes. slurmd refuses a job that starts in the second in which it was killed.
is_pending() { [ "$(on ctl squeue -h -j "$1" -o %T)" = PENDING ]; }
now() {
    wait_for 60 "job $1 is not requeued" is_pending "$1"
    sleep 2
    on ctl scontrol update JobId="$1" StartTime=now
}

# ---- the newest step is damaged: lm-train uses an older one -------------------------------------------------------------------
lm_train <<'END'
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "start $SLURM_ARRAY_TASK_ID"
[ "$SLURM_ARRAY_TASK_ID" = 1 ] || exit 0
mkdir -p "$RUN_DIRECTORY/global_step8"
printf '{\n  "run_id": "first"\n}\n' >"$RUN_DIRECTORY/global_step8/manifest.json"
echo global_step8 >"$RUN_DIRECTORY/latest"
sleep 1
rm "$RUN_DIRECTORY/global_step8/manifest.json"
exit 75
END
job=$(submit damaged --nodes=1 --array=1-2%1)
end
[ "$(starts)" = 2 ] || fail "a damaged step ends the array: $(cat damaged-"$job".log)"

# ---- the disk of the run and of the submission is full -------------------------------------------------------------------------
# By default the run is in the directory of the submission. Nothing can be noted there.
lm_train <<'END'
[ "$SLURM_PROCID" = 0 ] || exit 0
echo start
(($(df --output=avail -B1 "$RUN_DIRECTORY" | tail -n 1) > 0)) || {
    echo "lm-train: $RUN_DIRECTORY/x: cannot write: No space left on device" >&2
    exit 3
}
END
mkdir -p disk/run
on n1 sh -c "mount -t tmpfs -o size=24m tmpfs '$work/disk' && mkdir '$work/disk/run'"
job=$(cd disk && run=$work/disk/run submit full --nodes=1 --nodelist=n1 --array=1-4%1 --hold)
on n1 mkdir -m 700 "$work/disk/.full-$job"
on n1 sh -c "head -c 100M /dev/zero >'$work/disk/fill'" 2>/dev/null || true
on ctl scontrol release "$job"
wait_for 60 "a full disk is not noticed" log_has 'no room: '
on n1 rm "$work/disk/fill"
end
[ "$(starts)" = 2 ] || fail "a full disk: $(cat full-"$job".log)"
log_has '^finished' || fail "a full disk: $(cat full-"$job".log)"
on n1 umount -l "$work/disk"

# The message of a full disk is far from the last line: each rank reports its end.
lm_train <<'END'
echo "start"
mkdir "$RUN_DIRECTORY/x" || exit 0
echo "lm-train: $RUN_DIRECTORY/x: cannot write: No space left on device" >&2
for i in {1..100}; do echo "rank $i: lost the connection" >&2; done
exit 3
END
job=$(submit lines --nodes=1)
end
log_has 'has room again' || fail "a full disk: $(cat lines-"$job".log)"

# ---- a host on which the directory of the submission is not mounted ------------------------------------------------------------
# The task starts again on another host, and none is lost.
lm_train <<'END'
echo "start $SLURM_ARRAY_TASK_ID on $SLURMD_NODENAME"
[ "$SLURM_ARRAY_TASK_ID" = 2 ] || exit 75
END
mkdir -p far/away
job=$(cd far/away && submit unmounted --nodes=1 --array=1-2%1 --hold)
on ctl scontrol release "${job}_1"
wait_for 60 "the first task does not end" log_has 'saved, work remains'
for host in n1 n2; do on $host mount -t tmpfs tmpfs "$work/far"; done
on ctl scontrol update NodeName=n2 State=DRAIN Reason=test
on ctl scontrol release "${job}_2"
now "${job}_2"
end
grep -qx 'start 2 on n[34]' unmounted-"$job".log || fail "a host without the directory: $(cat unmounted-"$job".log)"
log_has '^finished' || fail "a host without the directory: $(cat unmounted-"$job".log)"
for host in n1 n2; do on $host umount -l "$work/far"; done
on ctl scontrol update NodeName=n2 State=RESUME

# ---- planted directories and links ---------------------------------------------------------------------------------------------
# Another user has made the directory of the job. No task holds its nodes for a pause.
mkdir victim
job=$(PAUSE_SECONDS=1000 submit planted --nodes=1 --array=1-9%1 --hold)
mkdir ".planted-$job"
chown nobody ".planted-$job"
on ctl scontrol release "$job"
end
[ "$(starts)" = 0 ] || fail "a planted directory: $(cat planted-"$job".log)"
[ -z "$(ls -A ".planted-$job")" ] || fail "a planted directory was used: $(ls -A ".planted-$job")"
# Links in place of the directory, of its files, and of the probes for room.
for target in victim absent; do
    job=$(submit planted --nodes=1 --array=1-2%1 --hold)
    ln -s "$work/$target" ".planted-$job"
    on ctl scontrol release "$job"
    end
    [ "$(starts)" = 0 ] || fail "a planted link: $(cat planted-"$job".log)"
done
# shellcheck disable=SC2016
{
    sed -n '/^has_room() {/,/^}/p' "$share/slurm/train.sbatch"
    echo 'mktemp() { ln -s "$target" probe; echo probe; }; ! has_room . 0'
} >probe.bash
for target in victim/file absent; do
    echo text >victim/file
    target=$work/$target bash probe.bash || fail "the probe for room follows a link to $target"
    [ "$(cat victim/file)" = text ] || fail "the probe for room has overwritten $target"
    [ ! -L probe ] || fail "the planted link stays"
done
[[ $(ls victim) = file ]] || fail "a planted link was followed: $(ls -A victim)"

# ---- an array without %1: only one task holds nodes ------------------------------------------------------------------------------
lm_train <<'END'
echo "start $SLURM_ARRAY_TASK_ID"
[ "$SLURM_ARRAY_TASK_ID" != 1 ] || until [ -e "$WORK/first-ends" ]; do sleep 0.2; done
[ "$SLURM_ARRAY_TASK_ID" != 1 ] || exit 75
END
job=$(submit parallel --nodes=1 --array=1-3)
one_runs() { [ "$(starts) $(on ctl squeue -h -r -j "$job" -t R,CG -o %i)" = "1 ${job}_1" ]; }
wait_for 60 "two tasks hold nodes" one_runs
touch first-ends
# Tasks that were requeued, and those that have not started.
for task in 2 3; do
    wait_for 30 "task $task" is_pending "${job}_$task"
    on ctl scontrol update JobId="${job}_$task" StartTime=now || true
done
end
[ "$(starts)" = 2 ] || fail "an array without %1: $(cat parallel-"$job".log)"

# ---- the controller does not answer when a node fails ----------------------------------------------------------------------------
lm_train <<'END'
[ "$SLURM_PROCID" != 0 ] || echo "start on $SLURM_STEP_NODELIST"
[ "$SLURMD_NODENAME" = n2 ] || { sleep 1; exit 0; }
until [ -e "$WORK/crash" ]; do sleep 0.1; done
kill -SEGV $$
END
job=$(PAUSE_SECONDS=5 SPARES=1 submit controller --nodes=3 --no-kill)
wait_for 30 "no start" log_has '^start'
controller=$(ip netns pids "$spaces-ctl" | while read -r pid; do [ "$(cat "/proc/$pid/comm")" != slurmctld ] || echo "$pid"; done)
kill "$controller"
sleep 1
touch crash
wait_for 30 "the crash is not noticed" log_has 'Segmentation fault'
sleep 20
daemon on ctl slurmctld -D
end
log_has 'start on n\[1,3\]' || fail "the controller does not answer: $(cat controller-"$job".log)"
log_has '^finished' || fail "the controller does not answer: $(cat controller-"$job".log)"

# ---- a node of a job with a spare one is cut off ----------------------------------------------------------------------------------
lm_train <<'END'
[ "$SLURM_PROCID" != 0 ] || echo "start on $SLURM_STEP_NODELIST"
[ ! -e "$WORK/was-cut" ] || exit 0
[ "$SLURM_PROCID" = 0 ] || sleep 1000
until [ -e "$WORK/cut" ]; do sleep 0.1; done
touch "$WORK/was-cut"
echo '{"state": "failed", "exit_code": 3, "reason": "timed out; rank 1 on n2 does not answer"}' >"$RUN_DIRECTORY/status.json"
exit 3
END
job=$(SPARES=1 submit cut --nodes=3 --no-kill --cpus-per-task=4)
wait_for 30 "no start" log_has '^start'
cut_off n2
touch cut
wait_for 120 "the training does not start again" log_has 'start on n\[1,3\]'
heal n2
end
log_has '^finished' || fail "a node that is cut off: $(cat cut-"$job".log)"
is_idle() { [ "$(on ctl sinfo -h -n n2 -o %T)" = idle ]; }
wait_for 60 "n2 does not return" is_idle

# ---- one rank ends with 4, the others hang and are killed --------------------------------------------------------------------------
lm_train <<'END'
trap '' TERM
echo start
[ "$SLURM_PROCID" = 0 ] || sleep 1000
echo '{"state": "failed", "exit_code": 4, "reason": "rank 0 on n1: not finite"}' >"$RUN_DIRECTORY/status.json"
exit 4
END
job=$(submit hanging --nodes=2 --array=1-3%1)
end
log_has '^exit code 4: ' || fail "ranks that hang hide the exit code: $(cat hanging-"$job".log)"
[ "$(starts)" = 2 ] || fail "ranks that hang: other tasks ran: $(cat hanging-"$job".log)"

# ---- the host of the batch script is lost -------------------------------------------------------------------------------------------
lm_train <<'END'
trap 'exit 75' USR1 TERM
[ "$SLURM_PROCID" != 0 ] || echo "start $SLURM_RESTART_COUNT"
[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0
while true; do sleep 0.2; done
END
job=$(SPARES=1 submit lost --nodes=3 --no-kill)
wait_for 30 "no start" log_has '^start'
guarded() { grep -q guard <<<"$(on ctl squeue -h -s -j "$job" -o %j)"; }
wait_for 30 "no guard" guarded
lost=$(on ctl squeue -h -j "$job" -o %B)
cut_off "$lost"
wait_for 180 "the job does not start again" log_has '^start 1'
heal "$lost"
end
log_has '^finished' || fail "the host of the batch script: $(cat lost-"$job".log)"
echo "damage, full disks, planted links, a controller that does not answer and lost hosts: each training went on, or stopped once"
