#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The batch templates and the cron checks in a real Slurm: arrays that end early, requeue, a node that is excluded, the watchdog
# over a training that runs, dies and finishes, and self-submitting cron jobs.
# labels: mpi;long
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_box.bash
. "$here/slurm_box.bash"
share=$(realpath "$here/../../share")

start_slurm 4 4
export PAUSE_SECONDS=0
state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1; }
exit_code() { scontrol show job "$1" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p' | head -n 1; }
# finish JOB WANTED: the job ends with this exit code.
finish() {
    until [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; do sleep 0.2; done
    [ "$(exit_code "$1")" = "$2" ] || fail "job $1: exit $(exit_code "$1"), wanted $2: $(cat ./*-"$1".log)"
}
# submit TEMPLATE ARGUMENT...: prints the number of the job; options of sbatch in $options.
options=()
submit() {
    local template=$1
    shift
    sbatch --parsable --cpus-per-task=1 --job-name=tiny --output="$PWD/%x-%A.log" "${options[@]}" "$share/$template" "$@"
}
tiny=(--mock-data --vocab-size 1000 --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32
    --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1
    --log-interval 1)
cat >site.conf <<END
PATH=$PATH
export SLURM_CONF=$SLURM_CONF
JOB_NAME=tiny
RUN_DIRECTORY=$work/run
STATUS_FILE=$work/run/status.json
STATE_DIRECTORY=$work/state
MAIN_LOG=$work/main_log.txt
BACKUP=$work/store
BACKUP_LOGS=$work/run/log*
FS_PATHS=$work/run
FS_PERCENT=100
PUBLISH_TO=$work/web
PUBLISH_KIND=web
PUBLISH_FILES="log status.json"
END
# check CODE PATTERN NAME: runs a check as cron does.
check() {
    local code=0
    env -i PATH=/usr/bin:/bin "$share/cron/$3" site.conf >out 2>&1 </dev/null || code=$?
    [ "$code" = "$1" ] || fail "$3: exit $code, wanted $1: $(cat out)"
    grep -Eq -- "$2" out || fail "$3: no '$2' in: $(cat out)"
}

# ---- preprocess, convert, debug -----------------------------------------------------------------
make_corpus corpus.jsonl 50
job=$(submit slurm/preprocess.sbatch --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod)
finish "$job" 0
[ -s data_text_document.bin ] || fail "no data: $(cat tiny-"$job".log)"
# One job for each shard, and a merge after the last one: the same bytes.
shards=$(options=(--array=0-2) && SHARDS=3 submit slurm/preprocess-shards.sbatch --input corpus.jsonl --output-prefix=shard \
    --tokenizer-type ByteTokenizer --append-eod)
job=$(sbatch --parsable --dependency="afterok:$shards" --output=merge-%A.log \
    --wrap="lm-preprocess merge --output-prefix all shard-?????_text_document.idx")
finish "$job" 0
for kind in bin idx; do cmp data_text_document.$kind all.$kind || fail "three shards, merged, are another dataset"; done
job=$(submit slurm/preprocess-shards.sbatch --input corpus.jsonl --output-prefix shard)
finish "$job" 2
job=$(RUN_DIRECTORY=$work/debug submit slurm/debug.sbatch --threads 1)
finish "$job" 0
grep -q '^all ranks train, save and resume' tiny-"$job".log || fail "debug: $(cat tiny-"$job".log)"
# A host without room in /dev/shm ends the job, and its log names the host.
mkdir full
cat >full/lm-shmcheck <<END
#!/bin/sh
[ "\$1" = --json ] || exec "$bin/lm-shmcheck" "\$@"
echo '{"kind": "host", "time": "2026-11-24T23:21:09Z", "host": "n7", "filesystem": "/dev/shm", "size": 100, "used": 99,' \
    '"available": 1, "use": 0.99, "inodes": 100, "inodes_used": 3, "health": "critical", "reason": "99 % full",' \
    '"dead_segments": 0, "dead_bytes": 0, "segments": []}'
exit 1
END
chmod +x full/lm-shmcheck
job=$(RUN_DIRECTORY=$work/debug-full PATH=$work/full:$PATH submit slurm/debug.sbatch --threads 1)
finish "$job" 1
grep -q '^critical: .* n7' tiny-"$job".log || fail "a host without room: $(cat tiny-"$job".log)"
job=$(options=(--ntasks-per-node=1) && submit slurm/convert.sbatch debug/checkpoints/global_step40 hf)
finish "$job" 0
[ -s hf/config.json ] || fail "convert: $(cat tiny-"$job".log)"

# ---- an array: a missing checkpoint, the watchdog, a killed rank, an early end -------------------
export RUN_DIRECTORY=$work/run
check 1 'ALERT gone' watchdog
job=$(submit slurm/train.sbatch "${tiny[@]}" --train-iters 2000)
finish "$job" 2
[ ! -e run ] || fail "a run without FRESH=1 made a directory"
options=(--array=1-4%1)
job=$(FRESH=1 submit slurm/train.sbatch "${tiny[@]}" --train-iters 2000)
until grep -qs '"state": "running"' run/status.json; do sleep 0.1; done
check 0 'running: iteration [0-9]+ of 2000' watchdog
check 0 'PULSE: tiny: running, iteration [0-9]+ of 2000.*jobs: .*RUNNING' pulse
# scancel may repeat the signal, and then fails because the task has ended.
scancel --batch --signal=USR1 "${job}_1" || true
until grep -qs '^saved, work remains' tiny-"$job".log; do sleep 0.1; done
until [ "$(jq .generation run/status.json)" = 2 ] && grep -qs '"state": "running"' run/status.json; do sleep 0.1; done
scancel "$job"
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
sleep 0.2
check 1 'ALERT gone: ' watchdog
# The next array finishes in its first task, which cancels the others. RUN_DIRECTORY holds a checkpoint now.
last=$(($(jq .saved_iteration run/status.json) + 5))
job=$(submit slurm/train.sbatch "${tiny[@]}" --train-iters 2000 --exit-iteration "$last")
finish "${job}_1" 0
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
[ "$(grep -c '^finished$' tiny-"$job".log)" = 1 ] || fail "more tasks ran: $(cat tiny-"$job".log)"
check 0 "finished: iteration $last of 2000" watchdog

# ---- the template on each exit code, with a stand-in for lm-train --------------------------------
mkdir stand-in
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo started
echo "task ${SLURM_ARRAY_TASK_ID:-} on $SLURM_JOB_NODELIST"
echo "{\"state\": \"failed\", \"time\": 1, \"reason\": \"rank 1 on n2: device lost\"}" >"$RUN_DIRECTORY/status.json"
exit "$WITH_CODE"
END
chmod +x stand-in/lm-train
# tasks CODE: runs an array of three tasks that end with CODE; prints how many of them ran.
tasks() {
    job=$(PATH=$work/stand-in:$PATH WITH_CODE=$1 submit slurm/train.sbatch)
    until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
    grep -c "^started$" tiny-"$job".log || true
}
options=(--array=1-3%1 --nodes=1-2)
[ "$(tasks 4)" = 1 ] || fail "exit 4: other tasks ran"
[ "$(tasks 77)" = 3 ] || fail "exit 77: the array was cancelled"
# A lost device: the node that the error names is excluded from the later tasks.
job=$(options=(--array=1-2%1 --nodes=2) && PATH=$work/stand-in:$PATH WITH_CODE=3 submit slurm/train.sbatch)
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
grep -q 'the later starts do not use n2' tiny-"$job".log || fail "a lost device: $(cat tiny-"$job".log)"
grep -Fxq 'task 1 on n[1-2]' tiny-"$job".log || fail "task 1 without n2: $(cat tiny-"$job".log)"
grep -Exq 'task 2 on n.(1,3|1,4|3-4).' tiny-"$job".log || fail "task 2 with n2: $(cat tiny-"$job".log)"

# The excluded host for each error: for a timeout, the host of the rank that does not answer, not that of the ranks that wait;
# for an error of a rank, the host of that rank; for a failed device, the host that wrote the status file; for a full disk, none.
failed_host() { # REASON: prints the host that the template excludes, and the kind of the failure
    jq -n --arg reason "$1" '{reason: $reason, host: "n3", rank: 5}' >reason.json
    # shellcheck disable=SC2034,SC2317
    (status=reason.json && eval "$(sed -n '/^failed_host() {/,/^}/p' "$share/slurm/train.sbatch")" && failed_host)
}
timeout="group 'world': all_reduce(sum, 8 x fp32), operation 12: timed out after 600 s waiting for ranks 1 and 2 of 4"
[ "$(failed_host "$timeout; rank 1 on n1 is in forward; rank 2 on n2 does not answer")" = "n2 rank on does not answer" ] || fail "a rank that waits is excluded"
[ "$(failed_host "lost the connection to rank 0 at n1: its process or its host has ended")" = "n1 its process or its host has ended" ] || fail "rank 0 is not excluded"
[ "$(failed_host "CUDA error: uncorrectable ECC error encountered")" = "n3 CUDA error uncorrectable ECC error encountered" ] || fail "the failed device is not excluded"
[ "$(failed_host "rank 1 on n1: run/global_step8.tmp/x: No space left on device")" = "" ] || fail "a full disk excludes a host"

# The host of a crash: srun names it, and the process that was killed has written no status.
crashed_host() { # LINES OF STDERR: prints the host and the kind of the crash
    printf '%s\n' "$1" >crash.err
    # shellcheck disable=SC2034,SC2317
    (errors=crash.err && eval "$(sed -n '/^crashed_host() {/,/^}/p' "$share/slurm/train.sbatch")" && crashed_host)
}
is_crash() { [ "$(crashed_host "$2")" = "$1" ] || fail "the host of a crash: '$(crashed_host "$2")', not '$1', of: $2"; }
is_crash "n2 Segmentation fault" $'x\nsrun: error: n2: task 1: Segmentation fault (core dumped)\nsrun: error: n1: task 0: Terminated'
is_crash "n2 Killed" $'srun: error: n2: task 1: Killed\nsrun: error: n1: task 0: Killed\nsrun: error: n3: tasks 4-5: Killed'
is_crash "n1 Exited with exit code 127" $'srun: error: n1: tasks 0-1: Exited with exit code 127'
is_crash "n1 Exited with exit code 1" $'srun: error: n1: tasks 0-1: Exited with exit code 1'
is_crash "" $'srun: error: n[1-2]: tasks 0-3: Exited with exit code 127'
is_crash "" $'srun: error: n1: task 0: Exited with exit code 127\nsrun: error: n2: task 1: Exited with exit code 127'
is_crash "" $'srun: error: n1: task 0: Exited with exit code 3\nsrun: error: n2: task 1: Terminated'
is_crash "" $'srun: error: n1: task 0: Exited with exit code 3\nsrun: error: n2: task 1: Killed'
is_crash "n4 Node failure" $'srun: error: Node failure on n4\nsrun: error: n4: task 1: Killed'
is_crash "n2 Program missing" $'slurmstepd-n2: error: execve(): lm-train: No such file\nsrun: error: n2: task 1: Exited with exit code 2'
is_crash "" $'slurmstepd-n2: error: execve(): lm-train: No such file\nslurmstepd-n1: error: execve(): lm-train: No such file'
is_crash "n3 Launch failure" $'srun: error: Task launch for StepId=17.0 failed on node n3: Communication connection failure'

# A node of the job is found by its name with and without a domain. A save that failed and then succeeded is no full disk.
node_of() { # HOST
    # shellcheck disable=SC2034,SC2317
    (SLURM_JOB_NODELIST='n[1-3]' && eval "$(sed -n '/^node_of() {/p' "$share/slurm/train.sbatch")" && node_of "$1")
}
[ "$(node_of n2.cluster.example) $(node_of n3) $(node_of n22) $(node_of n)" = "n2 n3  " ] || fail "names of nodes: $(node_of n2.cluster.example)"
is_full() { # LINES OF STDERR
    printf '%s\n' "$1" >full.err
    # shellcheck disable=SC2034,SC2317
    (errors=full.err files=. && has_room() { :; } && eval "$(sed -n '/^is_full() {/,/^}/p' "$share/slurm/train.sbatch")" && is_full)
}
failed_save="lm-train: warning: run/global_step8: NOT SAVED: No space left on device"
is_full "$failed_save" || fail "a full disk is not noticed"
! is_full "$failed_save"$'\nlm-train: note: run/global_step16: saved, 1 MiB' || fail "a full disk, long ago"
! is_full "lm-train: warning: --local-save: iteration 8: NOT SAVED: No space left on device" || fail "a full /dev/shm is a full disk"

# A planted link in place of the directory of the job is refused.
mkdir victim
job=$(options=(--array=1-2%1 --hold) && PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
ln -s victim .tiny-"$job"
scontrol release "$job"
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
grep -q "^$work/.tiny-$job: " tiny-"$job".log || fail "a planted link: $(cat tiny-"$job".log)"
[ -z "$(ls -A victim)" ] || fail "a planted link was followed: $(ls -A victim)"

# Exit code 2 after saves: a node lacks a file, and the later tasks do not use it.
cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "start on $SLURM_JOB_NODELIST"
mkdir -p "$RUN_DIRECTORY/global_step8"
echo '  "run_id": "a"' >"$RUN_DIRECTORY/global_step8/manifest.json"
echo global_step8 >"$RUN_DIRECTORY/latest"
sleep 2
[[ $SLURM_JOB_NODELIST == *2* ]] || exit 0
touch "$RUN_DIRECTORY/latest"
echo '{"state": "failed", "reason": "--data-path: no such dataset on rank 1 on n2.cluster.example"}' >"$RUN_DIRECTORY/status.json"
exit 2
END
job=$(options=(--array=1-3%1 --nodes=2) && RUN_DIRECTORY=$work/lacks PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
[ "$(grep -c '^start' tiny-"$job".log)" = 2 ] || fail "a node without the data: $(cat tiny-"$job".log)"
grep -q 'the later starts do not use n2' tiny-"$job".log || fail "a node without the data: $(cat tiny-"$job".log)"

# A node that kills its process, and one on which lm-train cannot start: the later tasks run elsewhere.
for code in 'kill -SEGV $$' 'exit 127'; do
    cat >stand-in/lm-train <<END
#!/bin/bash
[ "\$SLURM_PROCID" != 0 ] || echo "start on \$SLURM_JOB_NODELIST"
[ "\$SLURMD_NODENAME" != n1 ] || { $code; }
sleep 0.3
END
    job=$(options=(--array=1-3%1 --nodes=2 --ntasks-per-node=1) && PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
    until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
    grep -q 'the later starts do not use n1' tiny-"$job".log || fail "$code: $(cat tiny-"$job".log)"
    [ "$(grep -c '^start' tiny-"$job".log)" = 2 ] || fail "$code: $(cat tiny-"$job".log)"
    grep -q '^finished' tiny-"$job".log || fail "$code: $(cat tiny-"$job".log)"
done
# With a spare node, the training starts again in the same job, also while Slurm does not answer the update of the comment.
cat >stand-in/scontrol <<END
#!/bin/bash
if [[ "\$*" == *Comment=lm-train,* ]]; then
    for _ in {1..200}; do
        [ "\$(grep -c '^start' "$work/tiny-\$SLURM_JOB_ID.log")" != 2 ] || exit
        sleep 0.1
    done
    echo "start waits for scontrol"
    exit
fi
exec "$(command -v scontrol)" "\$@"
END
chmod +x stand-in/scontrol
cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" != 0 ] || echo "start of $SLURM_NTASKS on $SLURM_STEP_NODELIST"
[ "$SLURMD_NODENAME" != n2 ] || kill -SEGV $$
sleep 0.3
END
job=$(options=(--nodes=3 --ntasks-per-node=1 --no-kill) && NODES=2 PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
finish "$job" 0
[ "$(grep '^start' tiny-"$job".log | tr '\n' ' ')" = "start of 2 on n[1-2] start of 2 on n[1,3] " ] || fail "a spare node: $(cat tiny-"$job".log)"
rm stand-in/scontrol
# The same failure on several hosts has another cause than a host; the array ends after MAX_FAILURES, and not by lm-train's own count
# of starts without a step.
cat >stand-in/lm-train <<'END'
#!/bin/bash
count=$RUN_DIRECTORY/starts-without-step.json
[ "$SLURM_PROCID" != 0 ] || { echo start; [ ! -e "$count" ] || exit 4; touch "$count"; kill -SEGV $$; }
sleep 5
END
job=$(options=(--array=1-9%1 --nodes=1) && PATH=$work/stand-in:$PATH MAX_FAILURES=3 FRESH=1 submit slurm/train.sbatch)
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
[ "$(grep -c '^start' tiny-"$job".log)" = 3 ] || fail "the array was not cancelled: $(cat tiny-"$job".log)"
[ "$(grep -c 'the later starts do not use' tiny-"$job".log)" = 1 ] || fail "several hosts: $(cat tiny-"$job".log)"
# The status of an earlier job names no host of this one.
printf '#!/bin/sh\nexit 9\n' >stand-in/lm-train
mkdir -p stale
echo '{"state": "failed", "time": 1, "reason": "rank 1 on n2: device lost"}' >stale/status.json
job=$(options=(--array=1-2%1 --nodes=2) && RUN_DIRECTORY=$work/stale PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
! grep -q 'the later starts do not use' tiny-"$job".log || fail "a stale status: $(cat tiny-"$job".log)"

# A job that requires its nodes excludes none of them: it would wait for ever.
cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" != 0 ] || kill -SEGV $$
sleep 5
END
job=$(options=(--array=1-2%1 '--nodelist=n[1-2]') && PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
! grep -q 'the later starts do not use' tiny-"$job".log || fail "required nodes: $(cat tiny-"$job".log)"
[ "$(grep -c 'failure [12] of at most 5 .*: Segmentation fault on n1' tiny-"$job".log)" = 2 ] ||
    fail "required nodes: $(cat tiny-"$job".log)"

# The command of a crontab in docs/shmcheck.md checks each node of a running job, also of an array. All nodes of this Slurm have one
# name, so each takes that of its daemon.
mkdir hosts
# shellcheck disable=SC2016
printf '#!/bin/sh\nLM_HOST=${SLURMD_NODENAME:-} exec %s/lm-shmcheck "$@"\n' "$bin" >hosts/lm-shmcheck
chmod +x hosts/lm-shmcheck
command=$(sed -n 's/^    0 \* \* \* \* //p' "$share/../docs/shmcheck.md" | sed 's/\\%/%/g; s/-n train/-n tiny/')
job=$(sbatch --parsable --array=1-2%1 --nodes=2 --ntasks-per-node=2 --job-name=tiny --output=/dev/null --wrap='sleep 1000')
until [ "$(squeue -h -t R -n tiny -o %N)" = "n[1-2]" ]; do sleep 0.1; done
PATH=$work/hosts:$PATH sh -c "$command" >out 2>&1 || true
grep -q '^2 hosts: ' out || fail "$command: $(cat out)"
! grep -q missing out || fail "$command: $(cat out)"
scancel "$job"
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done

# A full disk: the task waits for room, and starts again itself; without room the rest is held.
if mkdir -p small && mount -t tmpfs -o size=32M tmpfs small 2>/dev/null; then
    at_exit "umount '$work/small'; stop_slurm"
    mkdir small/run
    cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" = 0 ] || exit 0
echo started
head -c 30000000 /dev/zero >"$RUN_DIRECTORY/x" 2>/dev/null || { echo "lm-train: $RUN_DIRECTORY/x: cannot write: No space left on device" >&2; exit 3; }
END
    head -c 30000000 /dev/zero >small/fill
    job=$(options=(--array=1-3%1 --nodes=1) && RUN_DIRECTORY=$work/small/run PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
    until grep -qs 'no room: .*60 minutes' tiny-"$job".log; do sleep 0.1; done
    rm small/fill small/run/x
    until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
    [ "$(grep -c '^started' tiny-"$job".log)" = 2 ] || fail "a full disk: $(cat tiny-"$job".log)"
    grep -q '^finished' tiny-"$job".log || fail "a full disk: $(cat tiny-"$job".log)"
    rm small/run/x
    head -c 30000000 /dev/zero >small/fill
    job=$(options=(--array=1-3%1 --nodes=1) && ROOM_MINUTES=0 RUN_DIRECTORY=$work/small/run PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
    until [[ $(squeue -h -r -n tiny -t PENDING -o %r | sort -u) == JobHeld* ]]; do sleep 0.1; done
    [ "$(grep -c '^started' tiny-"$job".log)" = 1 ] || fail "a full disk: $(cat tiny-"$job".log)"
    scancel "$job"
    umount small
    at_exit stop_slurm
fi

# Two arrays on one directory: the second one ends, and the first one continues.
cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" = 0 ] || exit 0
echo started
echo "{\"generation\": 1, \"job\": \"$SLURM_JOB_ID\"}" >"$RUN_DIRECTORY/fence.json"
until [ -e "$RUN_DIRECTORY/end" ]; do sleep 0.1; done
END
mkdir -p two
job=$(options=(--array=1-2%1 --nodes=1) && RUN_DIRECTORY=$work/two PATH=$work/stand-in:$PATH FRESH=1 submit slurm/train.sbatch)
until [ -e two/fence.json ]; do sleep 0.1; done
second=$(options=(--array=1-4%1 --nodes=1) && RUN_DIRECTORY=$work/two PATH=$work/stand-in:$PATH submit slurm/train.sbatch)
finish "${second}_1" 77
until [ -z "$(squeue -h -j "$second")" ]; do sleep 0.1; done
! grep -q '^started' tiny-"$second".log || fail "two arrays: $(cat tiny-"$second".log)"
grep -q "superseded: job ${job}_1 trains in" tiny-"$second".log || fail "two arrays: $(cat tiny-"$second".log)"
[ "$(squeue -h -j "${job}_1" -t RUNNING -o %k)" = "lm-train:$work/two" ] || fail "no comment: $(scontrol show job "$job")"
touch two/end
finish "${job}_1" 0
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done

# srun gets flags for the variables of the environment and for the container.
mkdir arguments
printf '#!/bin/sh\nprintf "%%s\\n" "$*"\n' >arguments/srun
chmod +x arguments/srun
job=$(options=() && PATH=$work/arguments:$PATH NUM_LAYERS=24 HIDDEN_SIZE=1024 NUM_ATTENTION_HEADS=16 SEQ_LENGTH=2048 \
    MAX_POSITION_EMBEDDINGS=4096 MICRO_BATCH_SIZE=2 GLOBAL_BATCH_SIZE=512 DATA_PATH=corpus TENSOR_PARALLEL=4 PIPELINE_PARALLEL=8 \
    CONTAINER_IMAGE=lm.sqsh CONTAINER_MOUNTS=/data:/data submit slurm/train.sbatch --lr 1e-3)
finish "$job" 0
for words in '--num-layers 24' '--hidden-size 1024' '--num-attention-heads 16' '--seq-length 2048' '--max-position-embeddings 4096' \
    '--micro-batch-size 2' '--global-batch-size 512' '--data-path corpus' '--tensor-model-parallel-size 4' \
    '--pipeline-model-parallel-size 8' '--save-interval 500' '--container-image=lm.sqsh --container-mounts=/data:/data lm-train' '--lr 1e-3$'; do
    grep -Eq -- "$words( |$)|$words" tiny-"$job".log || fail "no $words: $(cat tiny-"$job".log)"
done

job=$(options=() && PATH=$work/arguments:$PATH submit slurm/train.sbatch --save-schedule 10@100,18@1000)
finish "$job" 0
! grep -q -- '--save-interval' tiny-"$job".log || fail "two schedules of saves: $(cat tiny-"$job".log)"

# A pending job that can never start, and one whose nodes are down: the watchdog recognizes the reasons that this Slurm prints.
pending() { # PATTERN OPTION...: a job that waits for this reason
    local reason=$1
    shift
    job=$(sbatch --parsable --job-name=tiny --output=/dev/null "$@" --wrap=true)
    until [[ $(squeue -h -j "$job" -o %r) =~ $reason ]]; do sleep 0.1; done
}
rm -f run/status.json
failed=$(sbatch --parsable --output=/dev/null --wrap=false)
finish "$failed" 1
pending DependencyNeverSatisfied --dependency=afterok:"$failed"
check 1 'ALERT held: job [0-9]+ .*DependencyNeverSatisfied' watchdog
scancel "$job"
pending JobHeldUser --hold
check 1 'ALERT held: .*JobHeldUser' watchdog
scancel "$job"
# The job of another user with the same name is another training.
job=$(sbatch --parsable --uid=nobody --chdir=/ --job-name=tiny --output=/dev/null --hold --wrap=true)
until [ -n "$(squeue -h -j "$job" -o %i)" ]; do sleep 0.1; done
check 1 'ALERT gone' watchdog
echo JOB_USER=nobody >>site.conf
check 1 'ALERT held: .*JobHeldUser' watchdog
echo JOB_USER= >>site.conf
scancel "$job"
scontrol update NodeName=n4 State=DRAIN Reason=test
pending 'ReqNodeNotAvail.*n4' --nodelist=n4
check 0 'scheduled: job [0-9]+ \(ReqNodeNotAvail' watchdog
echo $(($(date +%s) - 4000)) >state/watchdog.unavailable
check 1 'ALERT unavailable: job [0-9]+ .*66 min: ReqNodeNotAvail, UnavailableNodes:n4' watchdog
scancel "$job"
scontrol update NodeName=n4 State=RESUME

# FRESH=1 is valid until a task has saved: if the directory is moved away later, the array stops. Also tests the reserve of a
# short job.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "task $SLURM_ARRAY_TASK_ID: $*"
[ "$SLURM_ARRAY_TASK_ID" = 1 ] || exit 2
touch "$RUN_DIRECTORY/latest"
exit 75
END
job=$(options=(--array=1-3%1 --time=5 --hold) && RUN_DIRECTORY=$work/moving FRESH=1 PATH=$work/stand-in:$PATH submit slurm/train.sbatch)
scontrol release "${job}_1"
until grep -qs '^saved, work remains' tiny-"$job".log; do sleep 0.1; done
[ -e .tiny-"$job"/saved ] || fail "the save was not noted: $(ls -a)"
mv moving elsewhere
scontrol release "${job}_2"
scontrol release "${job}_3"
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
grep -q '^task 1: .* --fresh --' tiny-"$job".log || fail "the first task: $(cat tiny-"$job".log)"
grep -q '^task 2: .* --exit-on-missing-checkpoint' tiny-"$job".log || fail "after the move: $(cat tiny-"$job".log)"
[ ! -e moving ] || fail "after the move: a new directory"
! grep '^task 3' tiny-"$job".log || fail "after the move: another task ran"
grep -Eq '^train.sbatch .*: [45] minutes .* (6[0-9]|7[0-5]) seconds' tiny-"$job".log || fail "a short job: $(cat tiny-"$job".log)"
grep -Eq -- '--exit-before-limit (6[0-9]|7[0-5])s( |$)' tiny-"$job".log || fail "a short job: $(cat tiny-"$job".log)"

# The directory is moved away while the first task runs, after its first step.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "task $SLURM_ARRAY_TASK_ID: $*"
[ "$SLURM_ARRAY_TASK_ID" = 1 ] || exit 2
touch "$RUN_DIRECTORY/latest"
while [ -e "$RUN_DIRECTORY" ]; do sleep 0.1; done
exit 3
END
job=$(options=(--array=1-2%1) && RUN_DIRECTORY=$work/early FRESH=1 PATH=$work/stand-in:$PATH submit slurm/train.sbatch)
until [ -e .tiny-"$job"/saved ]; do sleep 0.1; done
mv early early.away
until [ -z "$(squeue -h -n tiny)" ]; do sleep 0.1; done
grep -q '^task 2: .* --exit-on-missing-checkpoint' tiny-"$job".log || fail "moved in the first task: $(cat tiny-"$job".log)"

# Another training is in the run directory after the second task: the array does not continue it.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "task $SLURM_ARRAY_TASK_ID"
mkdir -p "$RUN_DIRECTORY/global_step1"
[ "$SLURM_ARRAY_TASK_ID" != 1 ] || printf '{\n  "run_id": "first"\n}\n' >"$RUN_DIRECTORY/global_step1/manifest.json"
echo global_step1 >"$RUN_DIRECTORY/latest"
exit 75
END
job=$(options=(--array=1-4%1 --hold --job-name=tr1/13B --output="$PWD/tiny-%A.log") && RUN_DIRECTORY=$work/moved FRESH=1 PATH=$work/stand-in:$PATH submit slurm/train.sbatch)
for task in 1 2; do
    scontrol release "${job}_$task"
    until [ "$(grep -cs '^saved, work remains' tiny-"$job".log)" = $task ]; do sleep 0.1; done
done
sed -i s/first/other/ moved/global_step1/manifest.json
scontrol release "${job}_3"
scontrol release "${job}_4"
until [ -z "$(squeue -h -n tr1/13B)" ]; do sleep 0.1; done
grep -q 'moved: .* other, .* first' tiny-"$job".log || fail "another training: $(cat tiny-"$job".log)"
! grep -E '^task [34]' tiny-"$job".log || fail "another training was continued"

# Requeue after failures: on another node than the one that the error names, and not for ever.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "start on $SLURM_JOB_NODELIST"
echo "{\"state\": \"failed\", \"time\": 1, \"reason\": \"rank 1 on n1: device lost\"}" >"$RUN_DIRECTORY/status.json"
exit 3
END
job=$(options=(--nodes=1) && FRESH=1 MAX_FAILURES=2 PATH=$work/stand-in:$PATH REQUEUE=1 submit slurm/train.sbatch)
until grep -qs "failure 1 of at most 2" tiny-"$job".log && [ "$(state "$job")" = PENDING ]; do sleep 0.1; done
until ! pgrep -f "^slurmstepd: \\[$job" >/dev/null; do sleep 0.1; done
sleep 1.5 # slurmd refuses a job that starts in the second in which it was killed
scontrol update JobId="$job" StartTime=now
finish "$job" 3
[ "$(grep '^start' tiny-"$job".log | tr '\n' ' ')" = "start on n1 start on n2 " ] || fail "requeue after a failure: $(cat tiny-"$job".log)"
grep -q "failure 2 of at most 2" tiny-"$job".log || fail "requeue after a failure: $(cat tiny-"$job".log)"

# Failures on one node after another, with a local step between them: each is a failure of its node. Without it, the second one ends
# the job.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "start on $SLURMD_NODENAME"
echo >>"$RUN_DIRECTORY/starts"
n=$(wc -l <"$RUN_DIRECTORY/starts")
[ "$n" -lt 3 ] || exit 0
echo "{\"state\": \"failed\", \"time\": 1, \"local_saved_iteration\": ${LOCAL_STEPS:-$n}," \
    "\"reason\": \"rank 0 on $SLURMD_NODENAME: device lost\"}" >"$RUN_DIRECTORY/status.json"
exit 3
END
for steps in "" 10; do
    job=$(options=(--nodes=3) && FRESH=1 MAX_FAILURES=2 SPARES=2 RUN_DIRECTORY=$work/local_steps$steps LOCAL_STEPS=$steps \
        PATH=$work/stand-in:$PATH submit slurm/train.sbatch)
    finish "$job" $((steps > 0 ? 3 : 0))
    [ "$(grep -c '^start on' tiny-"$job".log)" = $((steps > 0 ? 2 : 3)) ] || fail "local steps: $(cat tiny-"$job".log)"
    [ "$(grep '^start on' tiny-"$job".log | sort -u | wc -l)" = $((steps > 0 ? 2 : 3)) ] || fail "same node: $(cat tiny-"$job".log)"
done

# Requeue: the same job starts again after 75, and its log is kept.
cat >stand-in/lm-train <<'END'
#!/bin/sh
[ "$SLURM_PROCID" = 0 ] || exit 0
echo "start ${SLURM_RESTART_COUNT:-0}"
[ "${SLURM_RESTART_COUNT:-0}" = 1 ] || exit 75
END
options=()
job=$(PATH=$work/stand-in:$PATH REQUEUE=1 submit slurm/train.sbatch)
until [ "$(state "$job")" = PENDING ] && grep -qs "saved, work remains" tiny-"$job".log; do sleep 0.1; done
# Slurm would start the job again only after two minutes. The steps of the first start must have ended before.
until ! pgrep -f "^slurmstepd: \\[$job" >/dev/null; do sleep 0.1; done
sleep 1.5 # slurmd refuses a job that starts in the second in which it was killed
scontrol update JobId="$job" StartTime=now
finish "$job" 0
[ "$(grep '^start' tiny-"$job".log | tr '\n' ' ')" = "start 0 start 1 " ] || fail "requeue: $(cat tiny-"$job".log)"

# scancel ends a job with REQUEUE=1.
cat >stand-in/lm-train <<'END'
#!/bin/bash
[ "$SLURM_PROCID" = 0 ] || exit 0
trap 'exit 75' TERM
echo started
while true; do sleep 0.1; done
END
job=$(PATH=$work/stand-in:$PATH REQUEUE=1 submit slurm/train.sbatch)
until grep -qs '^started' tiny-"$job".log; do sleep 0.1; done
scancel "$job"
until [ -z "$(squeue -h -j "$job")" ]; do sleep 0.1; done
grep -q 'cancelled: ' tiny-"$job".log || fail "scancel: $(cat tiny-"$job".log)"

# ---- cron without a crontab ----------------------------------------------------------------------
mkdir checks web
for check in watchdog pulse backup publish fs-watch; do
    printf '#!/bin/sh\nexec %s/cron/alert %s/site.conf %s\n' "$share" "$work" $check >checks/$check
done
chmod +x checks/*
command -v rsync >/dev/null || rm checks/publish
job=$(CRON_SCRIPT=$share/cron/cron.sbatch CRON_CHAINS="3600:hourly" sbatch --parsable "$share/cron/cron.sbatch" 86400 checks)
finish_cron() { until [[ $(state "$1") =~ ^(COMPLETED|FAILED)$ ]]; do sleep 0.1; done; }
finish_cron "$job"
for name in lm-cron-checks lm-cron-hourly; do
    begin=$(squeue -h -n $name -t PENDING -o %S)
    [ -n "$begin" ] || fail "$name: no next job: $(cat lm-cron.log)"
    [ $(($(date -d "$begin" +%s) % 3600)) = 0 ] || fail "$name: begins at $begin"
done
[ "$(squeue -h -n lm-cron-checks | wc -l)" = 1 ] || fail "two chains: $(squeue)"
for check in checks/*; do
    grep -Eq "^20.*Z ${check##*/} \((0|1)\): " lm-cron.log || fail "$check: $(cat lm-cron.log)"
done
[ -e "store/global_step$last/manifest.json" ] || fail "backup: $(ls -R store)"
[ ! -e checks/publish ] || cmp run/log web/log || fail "publish: $(ls -R web)"
# Another host sees from watchdog.last when the watchdog ran last. A chain of cron jobs restarts a chain that was cancelled.
[ -n "$(find state/watchdog.last -mmin -1)" ] || fail "no watchdog.last: $(ls -l state)"
touch -d '40 minutes ago' state/watchdog.last
[ -n "$(find state/watchdog.last -mmin +30)" ] || fail "watchdog.last: $(ls -l state)"
scancel --name=lm-cron-hourly
job=$(squeue -h -n lm-cron-checks -t PENDING -o %i)
scontrol update JobId="$job" StartTime=now
finish_cron "$job"
for name in lm-cron-checks lm-cron-hourly; do
    [ "$(squeue -h -n $name -t PENDING | wc -l)" = 1 ] || fail "$name: not restarted: $(squeue; cat lm-cron.log)"
done
scancel --name=lm-cron-checks
scancel --name=lm-cron-hourly
echo "train, preprocess, convert, debug and cron jobs on 4 nodes"
