# SPDX-License-Identifier: Apache-2.0
# The faults of slurm_drill.sh; sourced. inject KIND waits until the training is healthy, plants a fault, and waits until the
# training has passed the iteration at which the fault was planted. It writes its findings to the files `report` and `wrong`.
# shellcheck disable=SC2154
clock_library=/usr/lib/$(uname -m)-linux-gnu/faketime/libfaketimeMT.so.1

# plan N: prints N kinds in random order. A short plan has those that recover fast.
plan() {
    local kinds=() kind count i j swap
    if (($1 < 20)); then
        for ((i = 0; i < $1; i++)); do kinds+=("$(printf '%s\n' kill damage scancel | sed -n "$((i % 3 + 1))p")"); done
    else
        while read -r kind count; do
            [ "$kind" != clock ] || [ -e "$clock_library" ] || kind="kill"
            for ((i = 0; i < (count * $1 + 99) / 100; i++)); do kinds+=("$kind"); done
        done <<<"kill 19
freeze 8
stall 3
cut 8
disk 8
damage 14
nan 8
scancel 12
requeue 8
twice 5
clock 4
watchdog 3"
    fi
    for ((i = ${#kinds[@]} - 1; i > 0; i--)); do
        j=$((RANDOM % (i + 1)))
        swap=${kinds[i]} kinds[i]=${kinds[j]} kinds[j]=$swap
    done
    printf '%s\n' "${kinds[@]:0:$1}"
}

wait_for() { # SECONDS WHAT COMMAND...
    local until=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < until)) || fail "$what: $(jq -c . "$status"; lm-ckpt ls "$run"; ls "$run"; on ctl squeue; tail -n 30 "$work"/drill-*.log; tail -n 3 "$work"/lm-cron.log; cat "$work/mails")"
        sleep 0.3
    done
}
state_of() { jq -r ".$1" "$status" 2>/dev/null || echo 0; }
# Succeeds when the training runs, has passed iteration $mark, and its generation is at least $least.
trains_on() { jq -e ".state == \"running\" and .iteration > $mark and .generation >= $least" "$status" >/dev/null 2>&1; }
mark=45 least=1 # the steps 20 and 40 exist, so one of them may be corrupted
running_job() { on ctl squeue -h -r -n drill -t R -o %i | tail -n 1; }
no_jobs() { [ -z "$(on ctl squeue -h -n drill)" ]; }
# Succeeds when a new start has claimed the directory; before its claim a start has no generation.
restarted() { jq -e ".generation > $generation" "$status" >/dev/null 2>&1; }
# Succeeds when no alert is open.
calm() { ! grep -qv '^0' state/*.sent 2>/dev/null; }
# alerted KIND: succeeds when a mail since the fault has this alert.
alerted() { grep -q "ALERT.*[: ]$1 " <<<"$(awk -v t="$injected" '$1 >= t' mails)"; }

# Prints "PID HOST" of each rank.
ranks() {
    local host pid
    for host in n1 n2 n3; do
        for pid in $(ip netns pids "$spaces-$host"); do
            [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != lm-train ] || echo "$pid $host"
        done
    done
}
# Sets `pid` and `host` of a random rank.
choose_rank() {
    local all
    mapfile -t all < <(ranks)
    [ ${#all[@]} -gt 0 ] || return 1
    read -r pid host <<<"${all[RANDOM % ${#all[@]}]}"
}

inject() {
    local kind=$1 pid host generation injected since recovered
    wait_for 240 "before $kind: the training does not continue" trains_on
    wait_for 120 "before $kind: an alert does not end" calm
    wait_for 60 "before $kind: no rank" choose_rank
    mark=$(($(state_of iteration) + 5)) generation=$(state_of generation)
    least=$((generation + 1))
    injected=$(date +%s) since=$injected
    required="" allowed=""
    "fault_$kind"
    wait_for 300 "$kind: the training does not recover" trains_on
    recovered=$(($(date +%s) - injected))
    echo "$(date -u +%T) $kind: $recovered s, iteration $(state_of iteration), start $(state_of generation)"
    judge_alerts "$kind"
    echo "$kind $recovered ${latency:--}" >>report
    # The next fault comes after another save.
    mark=$(($(state_of iteration) + 25)) least=1
}
# Compares the alerts in the mails since the fault with $required and $allowed. Sets `latency`, in seconds.
judge_alerts() {
    local kind=$1 time subject word
    latency=
    while read -r time subject; do
        [[ $subject == *ALERT* ]] || continue
        for word in ${subject##*: }; do
            if [ "$word" = "$required" ] && [ -z "$latency" ]; then
                latency=$((time - since))
                ((latency <= 2 * period)) || echo "$kind: alert $word after $latency s" >>wrong
            elif [[ " $required $allowed " != *" $word "* ]]; then
                echo "$kind: false alert at $time: $subject" >>wrong
            fi
        done
    done < <(awk -v t="$injected" '$1 >= t' mails)
}

fault_kill() { kill -9 "$pid"; }
fault_freeze() { kill -STOP "$pid"; }
# All ranks hang, as with a dead file system: only the status file shows the hang.
fault_stall() {
    local all
    mapfile -t all < <(ranks | cut -d' ' -f1)
    kill -STOP "${all[@]}"
    required=silent
    since=$(jq '.due | ceil' "$status")
    wait_for 240 "no alert" alerted silent
    kill -CONT "${all[@]}"
    least=$generation
}
fault_cut() {
    cut_off "$host"
    wait_for 240 "no start without $host" restarted
    heal "$host"
}
# The file system of the checkpoints is full until the alert.
fault_disk() {
    head -c 100M /dev/zero >disk/filler 2>/dev/null || true
    required=bytes allowed="burning silent"
    wait_for 120 "no alert" alerted bytes
    rm disk/filler
    least=$generation
}
fault_damage() {
    local step files
    step=$run/$(head -n 1 "$run/latest")
    files=("$step"/*.safetensors)
    flip "${files[RANDOM % ${#files[@]}]}" $((RANDOM % 1000 + 1)) 2>/dev/null || true
    kill -9 "$pid"
}
# Each start finds a NaN at the same iteration, as with a damaged file of the dataset.
fault_nan() {
    local at
    at=$((mark + 60))
    # The file `armed` has one NaN only. A start from a step before the previous NaN would need the previous NaN again, so no
    # such step may remain.
    wait_for 120 "the steps before the last NaN remain" no_step_before "$(tail -n 1 nan_iterations)"
    at=$(($(state_of iteration) + 60))
    echo "loss:nan:$at:0:0" >armed
    on ctl scancel --batch --signal=USR1 "$(running_job)" || true
    mark=$((at + 5))
    wait_for 240 "NaN at $at: no progress" trains_on
    grep -hq "iteration $at: .*--on-nan skip" "$work"/drill-*.log || fail "NaN at $at was not skipped: $(grep -h "on-nan" "$work"/drill-*.log)"
    echo "$at" >>nan_iterations
}
# no_step_before N: the current branch has no step up to N. (No start resumes from the steps of abandoned branches.)
no_step_before() {
    [ -n "$(lm-ckpt ls "$run" --json | jq -s "[.[] | select(.branch == \"current\" and .step <= ${1:-0})] | select(. == [])")" ]
}
fault_scancel() { on ctl scancel "$(running_job)"; }
# Maintenance: the administrator requeues the job.
fault_requeue() { on ctl scontrol requeue "$(running_job)"; }
# A second job with the same directory supersedes the array's task, and the array's next task supersedes the second job.
fault_twice() {
    submit "$run" -- >/dev/null
    least=$((generation + 2))
}
# The clocks of the nodes are set forward or back. An old time in the status file then looks like a silent training.
fault_clock() {
    local steps=(+1800 -1800 +40 -40)
    echo +0 >clock
    kill -9 "$pid"
    wait_for 240 "clock: no start" trains_on
    echo "${steps[RANDOM % 4]}" >clock
    allowed=silent
    mark=$(($(state_of iteration) + 40))
    wait_for 240 "clock: no progress" trains_on
    echo +0 >clock
    mark=$(($(state_of iteration) + 10))
}
# The jobs of the watchdog vanish, and the other chain of cron jobs starts them again.
fault_watchdog() {
    local until
    on ctl scancel --name=lm-cron-checks --user root
    sleep 1
    injected=$(date +%s) since=$injected least=$generation
    wait_for 120 "the watchdog does not return" watched
    until=$(($(date +%s) - injected))
    ((until <= 2 * period)) || echo "watchdog: returned after $until s" >>wrong
}
watched() { [ "$(stat -c %Y state/watchdog.last)" -ge "$injected" ]; }

print_report() {
    echo "drill: seed $seed, $n_faults faults in $elapsed s, $n_starts starts, ended at iteration $last with the bits of the undisturbed run" \
        "($(wc -l <nan_iterations) skipped batches)"
    echo "| fault | times | recovery, median and longest (s) | alert, longest (s) |"
    echo "|---|---|---|---|"
    cut -d' ' -f1 report | sort -u | while read -r kind; do
        awk -v k="$kind" '$1 == k { print $2 }' report | sort -n >seconds
        echo "| $kind | $(wc -l <seconds) | $(sed -n "$((($(wc -l <seconds) + 1) / 2))p" seconds), $(tail -n 1 seconds) |" \
            "$(awk -v k="$kind" '$1 == k && $3 != "-" { if (!n++ || $3 > m) m = $3 } END { print n ? m : "" }' report) |"
    done
    [ ! -s wrong ] || { echo "wrong:" && cat wrong; }
}
