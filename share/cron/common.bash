# SPDX-License-Identifier: Apache-2.0
# Functions that the scripts of this directory source. $1 is the configuration (site.conf.example). A script prints one line
# for each finding and exits with 0 (fine), 1 (an alert) or 3 (the check itself failed). The configuration sets PATH, because
# cron(8) sets few environment variables.
set -uo pipefail
program=${0##*/}

# printable TEXT: prints it on one line. File names and messages of other machines may have control characters: C0, DEL, and the C1 of
# UTF-8, which the locale of cron(8) does not know.
printable() {
    local text=$1 LC_ALL=C
    text=${text//[$'\x01'-$'\x1f'$'\x7f']/ }
    printf '%s\n' "${text//$'\xc2'[$'\x80'-$'\x9f']/ }"
}
# broken TEXT: the check itself failed.
broken() {
    printable "$program: $*"
    exit 3
}
[ $# -ge 1 ] || broken "usage: $program CONFIGURATION or JOB"
export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
configuration=$1
# configure_job JOB: writes a configuration for a job of train.sbatch, whose running task states its directory in the comment of the
# job. The directory outlives the job in Slurm's memory.
configure_job() {
    local list job name user run state
    state=${XDG_STATE_HOME:-$HOME/.local/state}/lm-utils/job-$1
    configuration=$state/site.conf
    list=$(squeue -h -j "$1" -o '%j|%u|%k' 2>&1) || [ -e "$configuration" ] || broken "squeue: job $1: $list"
    job=$(grep -m 1 '|lm-train[:,]' <<<"$list") || job=$(head -n 1 <<<"$list")
    # Without a running task, what an earlier check has read stays.
    [[ $job != *"|lm-train"[:,]* ]] && [ -e "$configuration" ] && return
    [ -n "$job" ] || broken "squeue: job $1: no such job"
    IFS='|' read -r name user run <<<"$job"
    [ -n "$user" ] || broken "squeue: job $1: its name has a line break: write a configuration"
    case $run in
        lm-train[:,]*) run=${run#lm-train*:} ;;
        *) run=$state/not-known-yet ;; # no task has run; the next check reads the comment again
    esac
    [[ $run == /* ]] || broken "job $1: its comment has the relative path $run: write a configuration"
    mkdir -p "$state" || broken "$state: cannot be created"
    printf '%s=%q\n' JOB_NAME "$name" JOB_USER "$user" RUN_DIRECTORY "$run" STATUS_FILE "$run/status.json" STATE_DIRECTORY "$state" \
        MAIN_LOG "$run/main_log.txt" >"$configuration"
}
if [[ $1 =~ ^[0-9]+(_[0-9]+)?$ ]] && [ ! -e "$1" ]; then configure_job "${1%_*}"; fi
[ -r "$configuration" ] || broken "$configuration: no such configuration"
# shellcheck source=share/cron/site.conf.example
. "$configuration" || broken "$configuration: cannot be read"

# need NAME...: these variables of the configuration are set.
need() {
    local variable
    for variable in "$@"; do
        [ -n "${!variable:-}" ] || broken "$variable is not set in the configuration"
    done
}
need JOB_NAME STATE_DIRECTORY
command -v python3 >/dev/null || broken "python3 is not in PATH=$PATH"
[ -d "$STATE_DIRECTORY" ] || (umask 077 && mkdir -p "$STATE_DIRECTORY") || broken "$STATE_DIRECTORY: cannot be created"
# Whoever can write there could plant links under the names of the files below.
[ -z "$(find "$STATE_DIRECTORY/" -maxdepth 0 -perm -o+w)" ] || broken "$STATE_DIRECTORY: other users can write there: chmod o-w"

now=$(date +%s)
alerts=0
unchecked= # what a check could not do
# alert KIND TEXT: a finding; KIND is one word that stays the same while the finding lasts.
alert() {
    local kind=$1
    shift
    printable "$JOB_NAME: ALERT $kind: $*"
    echo "next: $(next_step "$kind")"
    alerts=1
}
# next_step KIND: what the person on call does; docs/operations.md has more.
next_step() {
    local run=${RUN_DIRECTORY:-RUN} job=${job:-JOB}
    case $1 in
        gone) echo "read the log, then submit the training again" ;;
        lost-host) echo "scontrol requeue $job starts it again on other hosts" ;;
        silent) echo "scancel --signal=USR2 $job writes where each rank is to $run/flight-recorder; then scancel $job" ;;
        never-starts) echo "read the log: a start or an end that hangs, or a directory that is missing; then scancel $job" ;;
        held) echo "squeue -j $job -o %r prints the reason; correct it, then scontrol release $job" ;;
        unavailable) echo "sinfo -R prints why nodes are down; submit again without them" ;;
        burning) echo "read the log: a full disk, a node, a checkpoint that cannot be loaded" ;;
        stopped) echo "go back: lm-ckpt latest $run STEP, then submit with --skip-train-iteration-range" ;;
        unsaved) echo "read the log for NOT SAVED: a full disk, a quota, a directory that cannot be written" ;;
        reduced) echo "scancel --batch --signal=USR1 $job saves and ends this task; the next one has all nodes" ;;
        no-spare) echo "repair the nodes of the file failed-nodes of the job, and remove their lines there" ;;
        unsaved-local) echo "read the log for --local-save: a full /dev/shm (lm-shmcheck on the named host), or a lost partner" ;;
        last-task) echo "submit the next array with --dependency=afterany:${job%_*}" ;;
        full | bytes | inodes | quota) echo "lm-ckpt prune $run --keep-last 3 --keep-every 1000 --abandoned --dry-run, then without --dry-run" ;;
        busy) echo "look for a hanging file system or network, and end the process" ;;
        *) echo "read the message; the states of the checks are in $STATE_DIRECTORY" ;;
    esac
}
fine() { printable "$JOB_NAME: $*"; }
# finish: exits with the result of the check.
finish() {
    [ -z "$unchecked" ] || [ $alerts = 1 ] || broken "$unchecked"
    [ -z "$unchecked" ] || printable "$program: $unchecked"
    exit $alerts
}

# need_run: ends the check while the run directory does not exist because the first job waits in the queue.
need_run() {
    local jobs
    [ ! -d "$RUN_DIRECTORY" ] || return 0
    if jobs=$(jobs_of_training) && [ -n "$jobs" ] && ! grep -qv '|PENDING|' <<<"$jobs"; then
        fine "$RUN_DIRECTORY does not exist yet: the job waits in the queue"
        finish
    fi
    broken "$RUN_DIRECTORY: no such directory"
}

# replace FILE TEXT: writes a line to FILE, which keeps its old content when the disk is full.
replace() { { echo "$2" >"$1.$$" && mv -T "$1.$$" "$1"; } 2>/dev/null || { rm -f "$1.$$" && return 1; }; }

# only_one: exits when another process of this script still runs; alerts when that process has run for BUSY_HOURS.
only_one() {
    local lock=$STATE_DIRECTORY/$program.lock seconds
    exec 9>>"$lock"
    if ! flock -n 9; then
        seconds=$((now - $(stat -c %Y "$lock")))
        if ((seconds > ${BUSY_HOURS:-24} * 3600)); then
            alert busy "$program has run for $(age $seconds)"
        else
            fine "$program still runs"
        fi
        finish
    fi
    touch "$lock"
}

# read_status: fills the array `status` from the status file; null becomes an empty text. Fails without a file. Values that the
# checks compare are converted to numbers, because bash runs commands that a text in $((...)) contains.
declare -A status=()
read_status() {
    local text code=0
    # A pipe or a device would be read for ever.
    [ ! -e "$STATUS_FILE" ] || [ -f "$STATUS_FILE" ] || broken "$STATUS_FILE: is not a file"
    text=$(python3 -c 'import json, shlex, sys
sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
try:
    values = json.load(open(sys.argv[1]))
    assert isinstance(values["state"], str) and values["time"] is not None
    for key in ("time", "due", "started", "generation", "iteration", "total_iterations", "saved_iteration", "failed_saves",
                "failed_local_saves"):
        if values.get(key) is not None: values[key] = int(float(values[key]))
except FileNotFoundError:
    sys.exit(4)
except OSError as error:
    sys.exit(print("cannot be read:", error.strerror) or 3)
except Exception:
    sys.exit(print("is not a status file") or 3)
for key, value in values.items():
    if key.isidentifier() and key.isascii():
        text = "".join(c if c.isprintable() else " " for c in (str() if value is None else str(value)))
        print(f"status[{key}]={shlex.quote(text)}")' "$STATUS_FILE") || code=$?
    [ $code != 4 ] || return 1
    [ $code = 0 ] || broken "$STATUS_FILE: ${text:-cannot be read}"
    eval "$text"
}

# step_time: the seconds of an iteration in three digits.
step_time() { [ -z "${status[step_s]:-}" ] && echo "?" || LC_ALL=C printf "%.3g" "${status[step_s]}"; }

# whole TEXT: a number without its fraction; 0 for an empty text.
whole() {
    local number=${1%%.*}
    echo "${number:-0}"
}

# The seconds of squeue's D-HH:MM:SS; empty for another text, such as UNLIMITED.
seconds_of() {
    [[ $1 =~ ^[0-9:-]+$ ]] || return 0
    awk -F'[-:]' '{ for (i = NF; i > 0; --i) s += $i * (NF - i == 0 ? 1 : NF - i == 1 ? 60 : NF - i == 2 ? 3600 : 86400)
        print s + 0 }' <<<"$1"
}

# age SECONDS: "3 min", "2.5 h" or "4.0 days".
age() {
    awk -v s="$1" 'BEGIN { if (s < 120) printf "%d s", s; else if (s < 7200) printf "%d min", s / 60
        else if (s < 172800) printf "%.1f h", s / 3600; else printf "%.1f days", s / 86400 }'
}

# jobs_of_training: prints "ID|STATE|REASON|TIME|TIME_LEFT|COMMENT" for each job of the training, pending ones last. Jobs of other
# users may have the same name.
job_user=${JOB_USER:-$(id -un)}
jobs_of_training() {
    local list
    list=$(squeue -h -r -u "$job_user" -n "$JOB_NAME" -t R,CG,CF,PD,RQ,RS,S,SE,ST,SI -o '%i|%T|%r|%M|%L|%k' 2>&1) || broken "squeue: $list"
    awk -F'|' 'NF { print ($2 == "PENDING") "|" $0 }' <<<"$list" | sort -t'|' -k1,1 -s | cut -d'|' -f2-
}
