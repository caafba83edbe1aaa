# SPDX-License-Identifier: Apache-2.0
# Functions that the scripts of this directory source. $1 is the configuration (site.conf.example). A script prints one line
# for each finding and exits with 0 (fine), 1 (an alert) or 3 (the check itself failed). The configuration sets PATH, because
# cron(8) sets few environment variables.
set -uo pipefail
program=${0##*/}

# broken TEXT: the check itself failed.
broken() {
    echo "$program: $*"
    exit 3
}
[ $# -ge 1 ] || broken "usage: $program CONFIGURATION"
[ -r "$1" ] || broken "$1: no such configuration"
export PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
# shellcheck source=share/cron/site.conf.example
. "$1" || broken "$1: cannot be read"

# need NAME...: these variables of the configuration are set.
need() {
    local variable
    for variable in "$@"; do
        [ -n "${!variable:-}" ] || broken "$variable is not set in the configuration"
    done
}
need JOB_NAME STATE_DIRECTORY
command -v python3 >/dev/null || broken "python3 is not in PATH=$PATH"
mkdir -p "$STATE_DIRECTORY" || broken "$STATE_DIRECTORY: cannot be created"

now=$(date +%s)
alerts=0
unchecked= # what a check could not do
# alert KIND TEXT: a finding; KIND is one word that stays the same while the finding lasts.
alert() {
    local kind=$1
    shift
    echo "$JOB_NAME: ALERT $kind: $*"
    alerts=1
}
fine() { echo "$JOB_NAME: $*"; }
# finish: exits with the result of the check.
finish() {
    [ -z "$unchecked" ] || [ $alerts = 1 ] || broken "$unchecked"
    [ -z "$unchecked" ] || echo "$program: $unchecked"
    exit $alerts
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
    text=$(python3 -c 'import json, shlex, sys
try:
    values = json.load(open(sys.argv[1]))
    assert isinstance(values["state"], str) and values["time"] is not None
    for key in ("time", "due", "iteration", "saved_iteration"):
        if values.get(key) is not None: values[key] = int(float(values[key]))
except FileNotFoundError:
    sys.exit(1)
except OSError as error:
    sys.exit(print("cannot be read:", error.strerror) or 3)
except Exception:
    sys.exit(print("is not a status file") or 3)
for key, value in values.items():
    if key.isidentifier():
        print(f"status[{key}]={shlex.quote(str() if value is None else str(value))}")' "$STATUS_FILE" 2>&1) || code=$?
    [ $code != 1 ] || return 1
    [ $code = 0 ] || broken "$STATUS_FILE: $text"
    eval "$text"
}

# whole TEXT: a number without its fraction; 0 for an empty text.
whole() {
    local number=${1%%.*}
    echo "${number:-0}"
}

# age SECONDS: "3 min", "2.5 h" or "4.0 days".
age() {
    awk -v s="$1" 'BEGIN { if (s < 120) printf "%d s", s; else if (s < 7200) printf "%d min", s / 60
        else if (s < 172800) printf "%.1f h", s / 3600; else printf "%.1f days", s / 86400 }'
}

# jobs_of_training: prints "ID|STATE|REASON|TIME" for each job of the training, pending ones last. Jobs of other users may have the
# same name.
job_user=${JOB_USER:-$(id -un)}
jobs_of_training() {
    local list
    list=$(squeue -h -r -u "$job_user" -n "$JOB_NAME" -t R,CG,CF,PD,RQ,RS,S,SE,ST,SI -o '%i|%T|%r|%M' 2>&1) || broken "squeue: $list"
    awk -F'|' 'NF { print ($2 == "PENDING") "|" $0 }' <<<"$list" | sort -t'|' -k1,1 -s | cut -d'|' -f2-
}
