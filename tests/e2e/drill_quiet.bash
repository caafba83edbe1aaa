# SPDX-License-Identifier: Apache-2.0
# Quiet days of slurm_drill.sh, simulated; sourced. The checks run every ten minutes with stand-ins for date and squeue over a
# training of 20-hour jobs that waits in the queue, starts, trains, saves, validates, ends with its job, and is finished at the end.
# shellcheck disable=SC2154,SC2016

# quiet DAYS: simulates DAYS days (0: three hours), and fails when a check sends a message, except that of the finished training.
quiet() {
    local days=$1 t start end hour=3600 n=0 code
    mkdir quiet quiet/state
    printf '#!/bin/sh\n[ "$1" != +%%s ] || exec cat "%s/quiet/now"\nexec /bin/date "$@"\n' "$work" >quiet/date
    printf '#!/bin/sh\n[ -e "%s/quiet/queue" ] || { echo "slurm_load_jobs error: timed out"; exit 1; }\nexec cat "%s/quiet/queue"\n' \
        "$work" "$work" >quiet/squeue
    chmod +x quiet/date quiet/squeue
    sed "s#^PATH=#PATH=$work/quiet:#; s#^STATUS_FILE=.*#STATUS_FILE=$work/quiet/status.json#; s#^STATE_DIRECTORY=.*#STATE_DIRECTORY=$work/quiet/state#
        s#^FS_PERCENT=.*#FS_PERCENT=100#" site.conf >quiet/site.conf
    : >mails
    start=1767225600
    end=$((start + (days > 0 ? days * 24 * hour : 3 * hour)))
    quiet_iteration=0 quiet_generation=1 quiet_phase=pending quiet_until=$((start + hour)) quiet_job=1
    for ((t = start; t <= end; t += 600)); do
        ((t < quiet_until)) || next_phase "$t"
        ((t < end)) || quiet_phase=finished
        "quiet_$quiet_phase" "$t"
        echo "$t" >quiet/now
        # Once in fifty times squeue times out, but not twice in a row.
        if ((n > 0 && n % 50 == 0)); then rm quiet/queue; fi
        for check in watchdog $(((t - start) % 86400 == 0)); do
            [ "$check" != 1 ] || check=fs-watch
            [ "$check" != 0 ] || continue
            code=0
            env -i PATH=/usr/bin:/bin "$share/cron/alert" quiet/site.conf "$check" >quiet/out 2>&1 || code=$?
            [ $code = 0 ] || { [ $code = 3 ] && [ ! -e quiet/queue ]; } || fail "quiet: $check at $((t - start)) s, $quiet_phase: $(cat quiet/out)"
        done
        n=$((n + 1))
    done
    [ "$(cat mails)" = "$end [FINISHED] drill: watchdog" ] || fail "quiet: messages: $(cat mails)"
    echo "quiet: $n checks in $(((end - start) / 3600)) simulated hours, $quiet_generation starts, no message before the end"
}

next_phase() {
    case $quiet_phase in
        pending)
            quiet_phase=starting quiet_until=$(($1 + 1200))
            quiet_began=$1
            ;;
        starting)
            quiet_phase=running quiet_until=$((quiet_began + 20 * 3600))
            ;;
        running)
            quiet_phase=ending quiet_until=$(($1 + 600))
            ;;
        ending)
            quiet_phase=pending quiet_until=$(($1 + RANDOM % 4 * 3600 + 600))
            quiet_generation=$((quiet_generation + 1)) quiet_job=$((quiet_job + 1))
            ;;
    esac
}
# quiet_status STATE CODE TIME DUE
quiet_status() {
    echo "{\"state\": \"$1\", \"exit_code\": $2, \"reason\": null, \"host\": \"n1\", \"rank\": 0, \"started\": ${quiet_began:-0}, \"time\": $3," \
        "\"due\": $4, \"generation\": $quiet_generation, \"iteration\": $quiet_iteration, \"total_iterations\": 100000," \
        "\"saved_iteration\": null, \"step_s\": 20, \"step_bytes\": 1000, \"growing_saves\": [500, 1000, 50000]}" >quiet/status.json
}
quiet_pending() {
    [ ! -e quiet/status.json ] || quiet_status stopped 75 "$1" null
    echo "$quiet_job|PENDING|JobArrayTaskLimit|0:00" >quiet/queue
}
# Every third start follows a job that was killed for maintenance: the status file is in state running, with an old due time.
quiet_starting() {
    ((quiet_generation % 3 != 2)) || quiet_status running null "$((quiet_began - 3000))" $((quiet_began - 2760))
    echo "$quiet_job|RUNNING|None|$((($1 - quiet_began) / 60)):00" >quiet/queue
}
# lm-train has exited with 75, and the job runs its epilog.
quiet_ending() {
    local states=(RUNNING COMPLETING)
    quiet_status stopped 75 $(($1 - 30)) null
    echo "$quiet_job|${states[RANDOM % 2]}|None|20:00:00" >quiet/queue
    echo "$((quiet_job + 1))|PENDING|JobArrayTaskLimit|0:00" >>quiet/queue
}
quiet_running() {
    local states=(running running running saving validating) state written
    state=${states[RANDOM % 5]}
    quiet_iteration=$((quiet_iteration + 30))
    # lm-train writes its status each minute, with a later due time while it saves or validates.
    if [ "$state" = running ]; then
        written=$(($1 - RANDOM % 60))
        quiet_status running null "$written" $((written + 240))
    else
        written=$(($1 - RANDOM % 500))
        quiet_status "$state" null "$written" $((written + 660))
    fi
    echo "$quiet_job|RUNNING|None|5:00:00" >quiet/queue
}
quiet_finished() {
    quiet_status finished 0 "$1" null
    : >quiet/queue
}
