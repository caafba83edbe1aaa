# SPDX-License-Identifier: Apache-2.0
# Helpers of the end-to-end scripts; sourced. $1 is the build directory. The script works in a
# scratch directory that is removed at the end.
set -euo pipefail
bin=$(realpath "$1")/bin
export PATH="$bin:$PATH"
work=$(mktemp -d)
# Ends the background programs of the script, and waits for them.
end_jobs() {
    local jobs
    mapfile -t jobs < <(jobs -p)
    [ ${#jobs[@]} = 0 ] || kill "${jobs[@]}" 2>/dev/null || true
    wait
}
# at_exit COMMAND: runs it when this script ends. bash 5.2 also runs the trap in a background subshell that gets SIGTERM while
# its last command ends (34 of 1,500 times). The trap tests for it by "case", because the status of [ is wrong in that subshell.
at_exit() {
    # shellcheck disable=SC2064
    trap "case \$BASHPID in \$\$) $1 ;; esac" EXIT
}
at_exit 'end_jobs; rm -rf "$work"'
cd "$work"

# The words of lm-train's log before the iteration where a run resumes or ends. lm-estimate eta reads them, too.
# shellcheck disable=SC2034
resumed="resuming after iteration" stopped="stopped after iteration"

fail() {
    echo "FAILED: $*"
    exit 1
}

# expect CODE PATTERN COMMAND...: checks the exit code, and expects a matching line on stderr. The pattern has the object and the
# numbers of a message, and a short word where one object has several errors. stdout is in the file `out`, stderr in `err`.
expect() {
    local code=$1 pattern=$2 got=0
    shift 2
    "$@" >out 2>err </dev/null || got=$?
    [ "$got" = "$code" ] || fail "$*: exit $got, wanted $code: $(cat err)"
    [ -z "$pattern" ] || grep -Eq -- "$pattern" err || fail "$*: no '$pattern' in: $(cat err)"
}

# prints PATTERN COMMAND...: expects success and a matching line of output. (Not `COMMAND | grep -q`: grep exits at the
# first match, and SIGPIPE then kills a command that still writes.)
prints() {
    local pattern=$1 text
    shift
    text=$("$@") || fail "$*: exit $?"
    grep -Eq -- "$pattern" <<<"$text" || fail "$*: no '$pattern' in: $text"
}

# noted FILE: the flags that the notes of FILE name, in one line.
noted() { sed -nE 's/.*note: (--[a-z0-9_-]+).*/\1/p' "$1" | xargs; }

# nothing_under NAME: no file of that name or with that prefix exists.
nothing_under() { [ -z "$(find . -name "$1*")" ] || fail "left behind: $(find . -name "$1*")"; }

# make_corpus FILE DOCUMENTS: writes reproducible text with some structure to learn.
make_corpus() {
    awk -v n="$2" 'BEGIN {
        srand(7); split("the cat sat on a mat and saw one dog run over green grass while rain fell", w, " ")
        for (i = 0; i < n; i++) {
            text = ""
            for (j = 0; j < 60; j++) text = text w[1 + int(15 * rand() * rand())] " "
            printf "{\"text\": \"%s\"}\n", text
        }
    }' >"$1"
}

# flip FILE [FROM_END]: inverts the bits of one byte, by default the hundredth from the end.
flip() {
    local at=$(($(stat -c %s "$1") - ${2:-100})) byte
    byte=$(od -An -tu1 -j "$at" -N 1 "$1")
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

# free_ports N: prints the first of N consecutive unused ports, below the system's ephemeral ports.
free_ports() {
    local port taken i
    taken=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk '{ split($2, address, ":"); printf "%s ", address[2] }') || true
    while true; do
        port=$((20000 + (RANDOM * 32768 + RANDOM) % 12000))
        for ((i = 0; i < $1; i++)); do
            [[ " $taken" != *" $(printf %04X $((port + i))) "* ]] || continue 2
        done
        echo $port
        return
    done
}

# run LOG COMMAND...: expects success. stdout is in LOG, stderr in LOG.err.
run() {
    local log=$1
    shift
    "$@" >"$log" 2>"$log.err" </dev/null || fail "$*: exit $?: $(cat "$log.err")"
}
