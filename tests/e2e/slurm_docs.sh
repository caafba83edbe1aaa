#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every command of docs/operations.md, in the order of the page, on a real Slurm with the settings of slurm.conf.example. The
# commands are read from the page: the indented lines, and the commands in the text of "Exit codes" and "On call".
# labels: mpi;long
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_box.bash
. "$here/slurm_box.bash"
root=$(realpath "$here/../..")
# Prints the commands of the page, one on each line.
commands_of_page() {
    awk '/^## / { call = /On call/; codes = /Exit codes/ }
        /^    [^ ]/ { sub(/^ */, ""); sub(/ +#.*/, ""); print; next }
        call || codes { while (match($0, /`[^`]*`/)) {
            span = substr($0, RSTART + 1, RLENGTH - 2); $0 = substr($0, RSTART + RLENGTH)
            if (span ~ /^(until|scancel|squeue|sinfo|scontrol|lm-ckpt|curl) /) print span
        } }' "$root/docs/operations.md"
}

# ---- a site: the kit, text, a tiny model, and stand-ins for crontab and mail ----------------------------------------------
start_slurm 2 8 "$root/share/slurm/slurm.conf.example"
ln -s "$root/share" share
export HOME=$work/home
mkdir home text cron cron/10-minutes stand-in
make_corpus text/corpus.jsonl 20
cat >stand-in/crontab <<'END'
#!/bin/bash
# Runs each line of a crontab once, as cron does, with the paths of this site.
while read -r minute hour day month weekday command; do
    [[ $minute =~ ^[0-9*] ]] || continue
    [[ "$minute $hour $day $month $weekday" =~ ^[0-9*/]+(\ [0-9*/]+){4}$ ]] || { echo "not a time: $minute $hour"; exit 1; }
    env -i HOME=/nonexistent PATH=/usr/bin:/bin KIT="$PWD/share/cron" CONF="$HOME/tr1-cron/site.conf" /bin/sh -c "$command"
    echo "$? ${command% >*}" >>crontab.log
done <"$1"
END
# The page has trainings of a large site. The test has fewer ranks and micro-batches, and a tiny model instead of "...".
cat >stand-in/sbatch <<'END'
#!/bin/bash
case "$*" in *debug.sbatch*) ranks=2 && set -- "$@" --global-batch-size 2 --threads 1 ;; *) ranks=1 ;; esac
exec /usr/bin/sbatch --parsable --ntasks-per-node=$ranks --cpus-per-task=1 "$@"
END
chmod +x stand-in/*
export PATH=$work/stand-in:$PATH TENSOR_PARALLEL=1 PIPELINE_PARALLEL=1 SBATCH_JOB_NAME=tr1
tiny="--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --micro-batch-size 1
    --global-batch-size 4 --train-iters 1_000_000 --lr 1e-3 --lr-decay-style constant --eval-iters 0 --threads 1 --log-interval 2
    --save-interval 10 --save-retain keep-last=9,keep=10 --log-json run/log.json"
tiny=${tiny//$'\n'/ }
state() { scontrol show job "$1" 2>/dev/null | sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p' | head -n 1; }
ended() { until [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|)$ ]]; do sleep 0.1; done; }
completed() {
    ended "$1"
    [[ $(state "$1") =~ ^(COMPLETED|)$ ]] || fail "job $1: $(state "$1"): $(cat ./*-"$1".log)"
}
trained_to() { # ITERATION
    until jq -e ".state == \"running\" and .iteration >= $1" run/status.json >/dev/null 2>&1; do
        [ -n "$(squeue -h -j "$training")" ] || fail "no training: $(cat ./*-"$training".log)"
        sleep 0.1
    done
}
# The log of a task has its own job number.
# shellcheck disable=SC2012
newest_log() { ls -t tr1-*.log | head -n 1; }
# held CODE: a job that ends with this exit code is held by RequeueExitHold.
held() {
    job=$(sbatch --job-name=held --output=held.log --wrap="exit $1")
    until [ "$(state "$job")" = SPECIAL_EXIT ]; do sleep 0.1; done
}

# perform COMMAND: runs it, and checks that it does what the page states. Returns 1 for a command without a check.
job='' training=''
perform() {
    local command=${1//'...'/$tiny}
    command=${command//JOB/$job}
    case $1 in
        "until lm-train"*)
            cat >stand-in/lm-train <<'END'
#!/bin/bash
codes=(75 137 0)
echo x >>tries
exit ${codes[$(wc -l <tries) - 1]}
END
            chmod +x stand-in/lm-train
            eval "$command"
            [ "$(wc -l <tries)" = 3 ] || fail "the shell loop made $(wc -l <tries) starts"
            rm stand-in/lm-train
            hash -r
            ;;
        *debug.sbatch*) job=$(eval "$command") && completed "$job" && debug=$job ;;
        *preprocess.sbatch*)
            mkdir -p data && job=$(eval "$command") && completed "$job"
            [ -s data/corpus_text_document.bin ] || fail "$1: $(ls data)"
            ;;
        "FRESH=1 sbatch"*)
            training=$(eval "$command")
            trained_to 12
            scancel "$training"
            ended "$training"
            until [ -z "$(squeue -h -j "$training")" ]; do sleep 0.1; done
            jq -e '.state == "stopped" and .exit_code == 75 and .saved_iteration >= 12' run/status.json >/dev/null || fail "$(cat run/status.json)"
            ;;
        "sbatch --array"*)
            before=$(jq .iteration run/status.json)
            training=$(eval "$command")
            trained_to $((before + 2))
            jq -e '.generation == 2' run/status.json >/dev/null || fail "$(cat run/status.json)"
            ;;
        "SPARES=1 "*)
            command="${command//-N 17/-N 2} --data-path data/corpus_text_document --model gpt2-124m"
            command=${command//run\/log.json/spare.json}
            job=$(RUN_DIRECTORY=$work/spare eval "${command//\/dev\/shm/$work}")
            until grep -qs '"state": "running"' spare/status.json; do
                [ -n "$(squeue -h -j "$job")" ] || fail "$1: $(cat ./*-"$job".log)"
                sleep 0.1
            done
            [ "$(jq .ranks spare/status.json)" = 1 ] || fail "$1: $(cat spare/status.json)"
            scancel "$job"
            ended "$job"
            ;;
        *convert.sbatch*)
            job=$debug
            command=${1//JOB/$job}
            job=$(eval "${command//global_step1000/global_step10}") && completed "$job"
            [ -s hf/config.json ] || fail "$1: $(ls hf)"
            ;;
        "mkdir -p"*)
            eval "$command"
            git init -q --bare hub && git clone -q hub logs 2>/dev/null
            sed -i "s#^PATH=.*#PATH=$PATH; export SLURM_CONF=$SLURM_CONF#; s#^JOB_NAME=[^ ]*#JOB_NAME=tr1#; s#/data/tr1-13B-cron#$HOME/tr1-cron#
                s#/data/tr1-13B-logs#$work/logs#; s#/data/tr1-13B#$work/run#; s#/store/tr1-13B#$work/store#; s# /store)#)#
                s#^FS_PERCENT=85#FS_PERCENT=100#; s#^FS_DAYS=7#FS_DAYS=0#" "$HOME/tr1-cron/site.conf"
            ;;
        share/cron/watchdog*) prints 'tr1: (running|saving): iteration [0-9]+ of 1000000' eval "$command" ;;
        crontab*)
            eval "$command"
            [ "$(awk '{ print $1, $NF }' crontab.log | sort | tr '\n' ' ')" = "0 backup 0 fs-watch 0 publish 0 pulse 0 watchdog " ] ||
                fail "$1: $(cat crontab.log; cat "$HOME"/tr1-cron/*.err)"
            [ "$(git -C hub ls-tree --name-only HEAD log)" = log ] || fail "publish: $(git -C hub ls-tree HEAD)"
            [ -n "$(find store -name manifest.json)" ] || fail "backup: $(ls store)"
            ;;
        *cron.sbatch*)
            printf '#!/bin/sh\nexec %s/cron/alert %s watchdog\n' "$work/share" "$HOME/tr1-cron/site.conf" >cron/10-minutes/watchdog
            chmod +x cron/10-minutes/watchdog
            job=$(env -u SBATCH_JOB_NAME bash -c "$command") && completed "$job"
            grep -q 'Z watchdog (0): tr1: ' lm-cron.log || fail "$1: $(cat lm-cron.log)"
            [ "$(squeue -h -n lm-cron-cron_10-minutes -t PENDING | wc -l)" = 1 ] || fail "$1: no next job: $(cat lm-cron.log)"
            scancel --name=lm-cron-cron_10-minutes
            ;;
        find*)
            [ -z "$(eval "$command")" ] || fail "$1: the watchdog has just run"
            touch -d '31 minutes ago' "$HOME/tr1-cron/watchdog.last"
            [ -n "$(eval "$command")" ] || fail "$1: finds nothing"
            ;;
        "scancel --signal=USR2"*)
            eval "${1//JOB/$(squeue -h -r -j "$training" -t RUNNING -o %i)}"
            for rank in 0 1; do
                until [ -n "$(find run/flight-recorder -name "rank-$rank.jsonl" 2>/dev/null)" ]; do sleep 0.1; done
            done
            until grep -q 'note: rank 0: state: ' "$(newest_log)"; do sleep 0.1; done
            lm-train --explain run/flight-recorder/* >out || fail "$1: no dumps"
            ;;
        scancel*)
            eval "${1//JOB/$training}"
            until [ -z "$(squeue -h -j "$training")" ]; do sleep 0.1; done
            ;;
        "lm-ckpt latest"*)
            eval "${command//600/10}"
            [ "$(head -n 1 run/latest)" = global_step10 ] || fail "$1: $(head -n 1 run/latest)"
            ! grep -q "$stopped" run/log || fail "$1: run/log is not cut"
            # The commands that follow on the page read the logs of the whole training.
            cp run/abandoned-g*/log run/abandoned-g*/log.json run
            ;;
        "lm-ckpt prune"*)
            eval "$command" >out
            [ -e run/global_step10 ] || fail "$1: deleted"
            ;;
        squeue*)
            held 4
            prints 'JobHeld|Special' eval "${1//JOB/$job}"
            ;;
        scontrol*)
            eval "$command"
            until [ "$(state "$job")" != SPECIAL_EXIT ]; do sleep 0.1; done
            scancel "$job"
            ;;
        sinfo*)
            scontrol update NodeName=n2 State=DRAIN Reason="memory errors"
            prints 'memory errors.* n2' eval "$command"
            scontrol update NodeName=n2 State=RESUME
            ;;
        share/cron/tail-remote* | curl*)
            [ -s port ] || (cd run && exec python3 "$here/range_server.py") >port 2>served &
            until [ -s port ]; do sleep 0.05; done
            command=${command//https:\/\/example.org\/tr1/http://127.0.0.1:$(cat port)}
            eval "${command//URL/http://127.0.0.1:$(cat port)/log}" >tail.out &
            until grep -qs "$stopped" tail.out; do sleep 0.05; done
            kill $! 2>/dev/null || true
            ;;
        *"eta run/log.json --max-age"*)
            # The training was cancelled, so its last line is old.
            expect 1 ' last line .*old' eval "$command"
            grep -Eq '^restarts +1' out || fail "$1: $(cat out)"
            ;;
        *"eta --follow"* | *"eta --why"*)
            # The log of Slurm states the end: scancel.
            command=${command/--follow/--follow --interval 0.2s}
            eval "${command//slurm-4711.out/$(newest_log)}" >out || [ $? = 1 ]
            grep -Eq '^(cancelled: |cause +cancelled)' out || fail "$1: $(tail -n 5 out)"
            ;;
        *) return 1 ;;
    esac
}
mapfile -t commands < <(commands_of_page)
[ ${#commands[@]} -ge 20 ] || fail "only ${#commands[@]} commands in docs/operations.md"
for command in "${commands[@]}"; do
    seconds=$SECONDS
    perform "$command" || fail "docs/operations.md has a command that this test does not know: $command"
    [ -z "${LM_VERBOSE:-}" ] || echo "$((SECONDS - seconds)) s: $command"
done

# The column "Slurm alone" of the exit codes: Slurm held code 4 above. It also holds 76, and starts the job again after 75.
held 76
scancel "$job"
job=$(sbatch --job-name=again --output=again.log --open-mode=append --wrap='echo start; exit 75')
until [ "$(scontrol show job "$job" | sed -n 's/.*Restarts=\([0-9]*\).*/\1/p')" = 1 ]; do sleep 0.1; done
scancel "$job"
echo "${#commands[@]} commands of docs/operations.md"
