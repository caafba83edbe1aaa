#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the checks of share/cron in cron's empty environment with a stand-in for squeue, and tests their lines and exit codes.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
kit=$(realpath "$here/../../share/cron")

mkdir stand-in run
cat >stand-in/squeue <<'END'
#!/bin/sh
[ -e "$(dirname "$0")/queue" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller"; exit 1; }
case "$*" in *%B*) cat "$(dirname "$0")/batch-host" 2>/dev/null || exit 1 ;; *) cat "$(dirname "$0")/queue" ;; esac
END
cat >stand-in/sendmail <<'END'
#!/bin/sh
[ ! -e "$(dirname "$0")/down" ] || exit 1
cat >>"$(dirname "$0")/mails"
END
chmod +x stand-in/*
cat >site.conf <<END
PATH=$work/stand-in:$bin:/usr/bin:/bin
JOB_NAME=tiny
RUN_DIRECTORY=$work/run
STATUS_FILE=$work/status.json
STATE_DIRECTORY=$work/state
MAIN_LOG=$work/main_log.txt
MAIL_TO=oncall@localhost
SENDMAIL=$work/stand-in/sendmail
BACKUP=$work/store
BACKUP_LOGS=$work/run/log*
FS_PATHS=$work/run
FS_PERCENT=100
END
# check CODE PATTERN NAME: runs a check as cron does.
check() {
    local code=0
    env -i HOME=/nonexistent LOGNAME=root SHELL=/bin/sh PATH=/usr/bin:/bin /bin/sh -c "$kit/$3 $work/site.conf ${4:-}" \
        >out 2>err </dev/null || code=$?
    [ "$code" = "$1" ] || fail "$3 ${4:-}: exit $code, wanted $1: $(cat out err)"
    [ ! -s err ] || fail "$3: stderr: $(cat err)"
    grep -Eq -- "$2" out || fail "$3 ${4:-}: no '$2' in: $(cat out)"
}
queue() { printf '%s\n' "$@" >stand-in/queue; }
# status STATE CODE ITERATION DUE [GENERATION]: writes a status file. DUE is in seconds since 1970, or null.
status() {
    local now
    now=$(date +%s)
    cat >status.json <<END
{"state": "$1", "exit_code": $2, "reason": "it's the \$reason \"here\"", "host": "n7", "rank": 0, "run_id": "x",
 "started": $now, "time": $((now - 5)), "due": $4, "generation": ${5:-1}, "iteration": $3, "total_iterations": 80,
 "saved_iteration": 10, "step_s": 0.5, "\$(touch evil)": 1}
END
}
in_future=$(($(date +%s) + 600)) in_past=$(($(date +%s) - 600))

# ---- watchdog: each state of queue and status ---------------------------------------------------
check 3 'squeue: .*Unable to contact' watchdog
queue ''
check 1 'ALERT gone: .*none' watchdog
# The directory of the status file was moved away.
sed "s#^STATUS_FILE=.*#STATUS_FILE=$work/moved/status.json#" site.conf >moved.conf
mv site.conf whole.conf && mv moved.conf site.conf
check 1 "ALERT gone: .*$work/moved does not exist" watchdog
sed -i "s#^MAIN_LOG=.*#MAIN_LOG=$work/moved/main_log.txt#" site.conf
check 3 "^pulse: $work/moved/main_log.txt: cannot be written: No such file or directory" pulse
[ "$(wc -l <out)" = 2 ] || fail "pulse: $(cat out)"
queue '12|RUNNING|None|31:00'
check 1 "ALERT never-starts: job 12 .*$work/moved does not exist" watchdog
mv whole.conf site.conf
rm -f state/watchdog.progress
queue '12|RUNNING|None|5:00'
check 0 'job 12 runs for 5:00 and starts' watchdog
queue '12|RUNNING|None|1-00:31:00'
check 1 'ALERT never-starts' watchdog
status running null 10 "$in_future"
check 0 'running: iteration 10 of 80, 0.5 s an iteration, job 12' watchdog
status running null 10 "$in_past"
check 1 'ALERT silent: .*[0-9] s .* iteration 10 of 80, rank 0 on n7' watchdog
queue '13|PENDING|Priority|0:00' '12|RUNNING|None|5:00'
check 1 'ALERT silent: job 12' watchdog
# A full disk stops the status file and not the training.
cat >stand-in/dd <<'END'
#!/bin/sh
echo "dd: error writing 'x': No space left on device" >&2
exit 1
END
chmod +x stand-in/dd
check 1 "ALERT unsaved: $work/status.json .*: No space left on device: job 12 runs, iteration 10 of 80" watchdog
! grep -q silent out || fail "a full disk is not a training that hangs: $(cat out)"
rm stand-in/dd
check 1 'ALERT silent: job 12' watchdog
[ -z "$(find . -maxdepth 1 -name '.watchdog*')" ] || fail "the watchdog leaves files: $(ls -A)"
# Slurm has removed the host of the batch script from a job with --no-kill.
cat >stand-in/scontrol <<'END'
#!/bin/sh
[ "$1 $2" != "show hostnames" ] || printf 'n2\nn3\n'
END
chmod +x stand-in/scontrol
echo 'n2|n[2-3]' >stand-in/batch-host
check 1 'ALERT silent: job 12' watchdog
echo 'n1|n[2-3]' >stand-in/batch-host
check 1 'ALERT lost-host: job 12 .* n1: running, iteration 10 of 80' watchdog
grep -qx 'next: scontrol requeue 12 .*' out || fail "no next step: $(cat out)"
rm state/watchdog.progress
status failed 3 10 null
check 1 'ALERT lost-host: job 12 .* n1: failed' watchdog
status running null 10 "$in_future"
check 0 'running: iteration 10' watchdog
rm stand-in/scontrol stand-in/batch-host
status running null 10 "$in_past"
queue '13|PENDING|Priority|0:00'
check 0 'scheduled: job 13 \(Priority\)' watchdog
queue '13|PENDING|DependencyNeverSatisfied|0:00'
check 1 'ALERT held: job 13' watchdog
for reason in 'launch failed requeued held' JobHeldAdmin PartitionTimeLimit QOSMaxWallDurationPerJobLimit AssocGrpCPUMinutesLimit InvalidQOS; do
    queue "13|PENDING|$reason|0:00"
    check 1 'ALERT held: job 13' watchdog
done
# Nodes that are down may come back, so the alert comes only after an hour.
for reason in 'ReqNodeNotAvail, UnavailableNodes:n[1-3]' 'Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions'; do
    queue "13|PENDING|$reason|0:00"
    check 0 'scheduled: job 13' watchdog
    echo $(($(date +%s) - 3590)) >state/watchdog.unavailable
    check 0 'scheduled: job 13' watchdog
    echo $(($(date +%s) - 3700)) >state/watchdog.unavailable
    check 1 'ALERT unavailable: job 13 .*61 min: (ReqNode|Nodes required)' watchdog
    queue '13|PENDING|Resources|0:00'
    check 0 'scheduled: job 13' watchdog
done
# A wait that ended with a start does not count for the next wait.
queue '13|PENDING|PartitionDown|0:00'
check 0 'scheduled: job 13' watchdog
echo $(($(date +%s) - 3700)) >state/watchdog.unavailable
queue '13|RUNNING|None|0:01'
check 0 'starts' watchdog
queue '14|PENDING|PartitionDown|0:00'
check 0 'scheduled: job 14' watchdog
rm state/watchdog.unavailable
queue ''
check 1 "ALERT gone: .*it's the .reason \"here\"" watchdog
[ ! -e evil ] || fail "a key of the status file was run"
status finished 0 80 null
check 0 'finished: iteration 80 of 80' watchdog
status stopped 76 40 null
check 0 'stopped on purpose: iteration 40' watchdog
status failed 4 40 null
check 1 'ALERT stopped: exit code 4' watchdog
queue '13|PENDING|Priority|0:00'
status stopped 75 90 null 2
check 0 'scheduled: job 13' watchdog
: >state/watchdog.progress # empty, as a full disk leaves it
check 0 'scheduled: job 13' watchdog
check 0 'scheduled: job 13' watchdog
# shellcheck disable=SC2016
for text in '{' '[1]' '{"state": null, "time": 1}' '{"state": "running", "time": 1, "iteration": "now[$(touch evil)]"}'; do
    echo "$text" >status.json
    check 3 '^watchdog: .*status.json: ' watchdog
    check 3 '^pulse: /.*status.json: ' pulse
done
[ -z "$(find . -name evil)" ] || fail "a value of the status file was run"
# A reason with a lone surrogate, a newline or an escape is read, and its control characters reach no terminal.
cat >status.json <<'END'
{"state": "running", "time": 1, "due": 9999999999, "iteration": 7, "reason": "a\ud800b\nc\u001b[31m"}
END
queue '12|RUNNING|None|99999:00'
check 0 'PULSE: tiny: running, iteration 7 .*; a b c \[31m$' pulse
[ "$(wc -l <out)" = 1 ] || fail "pulse: $(cat out)"
: >main_log.txt

# A job that has trained for hours needs a while to end, or to start again. A job that does not end raises an alert.
status stopped 75 90 null 2
for state in RUNNING COMPLETING; do
    queue "12|$state|None|20:00:00"
    check 0 'job 12 runs for 20:00:00 and starts or ends: stopped, iteration 90' watchdog
done
written() { jq ".time = $(date +%s) - $1" status.json >s && mv s status.json; } # SECONDS ago
written 2400
check 1 'ALERT never-starts: .* 40 min' watchdog
# The due time of a killed job has passed. The watchdog gives the next job 20 minutes to prepare its start.
status running null 90 "$in_past" 2
written 1200
queue '13|RUNNING|None|3:00'
check 0 'job 13 runs for 3:00 and starts' watchdog
queue '13|RUNNING|None|19:00'
check 0 'job 13 runs for 19:00 and starts' watchdog
queue '13|RUNNING|None|21:00'
check 1 'ALERT silent: job 13' watchdog
written 7200
queue '13|RUNNING|None|31:00'
check 1 'ALERT never-starts: job 13 .*31:00' watchdog
rm state/watchdog.progress
queue "13|PENDING|Priority|0:00"
status stopped 75 90 null 2
check 0 "scheduled: job 13" watchdog

# Starts without progress: generation 2 reached iteration 90, and generations 3, 4 and 5 do not pass it. The third of them raises
# the alert.
for generation in 3 4 5; do
    status stopped 75 88 null $generation
    [ $generation = 5 ] || check 0 'scheduled' watchdog
done
check 1 'ALERT burning: 3 starts' watchdog
status stopped 75 91 null 5
check 0 'scheduled' watchdog
# Tasks that die before lm-train starts, for example because the program is missing, write no status.
queue '20_2|RUNNING|None|0:03' '20_3|PENDING|JobArrayTaskLimit|0:00'
check 0 'scheduled|starts' watchdog
queue '20_3|PENDING|JobArrayTaskLimit|0:00'
check 0 'scheduled' watchdog
queue '20_5|RUNNING|None|0:20'
check 1 'ALERT burning: 3 starts' watchdog
status running null 95 "$in_future" 5
check 0 'running: iteration 95' watchdog
# After a rollback to an earlier step, new steps are progress, although they are far below the highest iteration so far.
for saved in 20 30 40 50 60; do
    status running null $((saved + 2)) "$in_future" $saved
    sed -i "s/\"saved_iteration\": 10/\"saved_iteration\": $saved/" status.json
    check 0 "running: iteration $((saved + 2))" watchdog
done
queue '21|PENDING|Priority|0:00'
status stopped 75 96 null 5
check 0 'scheduled' watchdog
status stopped 75 91 null 5

# bash runs commands in an array's index in $((...)): neither the status file nor the file of the progress may hold one.
# shellcheck disable=SC2016
for value in '"x 22_[$(touch ran)]"' '"22_[$(touch ran)]/RUNNING"' '"9"'; do
    status running null 97 "$in_future" 6
    jq ".started = $value" status.json >s && mv s status.json
    rm -f state/watchdog.progress
    for job in 21_1 22_3; do
        queue "$job|RUNNING|None|5:00|1:00:00"
        check "$([ "$value" = '"9"' ] && echo 0 || echo 3)" 'status.json: is not a status file|running: iteration 97' watchdog
    done
done
# shellcheck disable=SC2016
echo '0 97 0 -1 start 22_[$(touch ran)]/RUNNING' >state/watchdog.progress
check 0 'running: iteration 97' watchdog
[ -z "$(find . -name ran)" ] || fail "a command of the status file ran"

# ---- saves that fail, and the last task of an array ----------------------------------------------
status running null 97 "$in_future" 6
queue '22_3|RUNNING|None|5:00|1:00:00'
check 0 'running: iteration 97' watchdog
jq '.failed_saves = 2' status.json >s && mv s status.json
check 1 'ALERT unsaved: 2 saves .* 10' watchdog
grep -q '^next: ' out || fail "no next step: $(cat out)"
# The message of the log names the host and the path.
printf '%s\n' 'x: NOT SAVED: rank 2 on n5: old' 'x: NOT SAVED: rank 2 on n5: run/optim: Read-only' '--local-save: 8: NOT SAVED: n2' >run/log
check 1 'ALERT unsaved: 2 saves .*: NOT SAVED: rank 2 on n5: run/optim: Read-only$' watchdog
rm run/log
# A log that is a device is not read for ever.
ln -s /dev/zero run/log
check 1 'ALERT unsaved: 2 saves' watchdog
rm run/log
jq '.failed_saves = 0 | .failed_local_saves = 4' status.json >s && mv s status.json
check 1 'ALERT unsaved-local: 4 saves .* 97' watchdog
! grep -q 'ALERT unsaved:' out || fail "local saves: $(cat out)"
jq '.failed_local_saves = 0' status.json >s && mv s status.json
# train.sbatch notes in the comment of the job that fewer nodes train, or that no spare node is left.
queue "22_3|RUNNING|None|5:00|1-00:00:00|lm-train:$work/run"
check 0 'running: iteration 97' watchdog
queue "22_3|RUNNING|None|5:00|1-00:00:00|lm-train, 16 of 16 nodes, 1 spare:$work/run"
check 0 'running: iteration 97' watchdog
queue "22_3|RUNNING|None|5:00|1-00:00:00|lm-train, 16 of 16 nodes, 0 spare:$work/run"
check 1 'ALERT no-spare: job 22_3 ' watchdog
queue "22_3|RUNNING|None|5:00|1-00:00:00|lm-train, 9 of 16 nodes, 0 spare:$work/run"
check 1 'ALERT reduced: job 22_3 .* 9 of 16 nodes' watchdog
! grep -q no-spare out || fail "two alerts: $(cat out)"
grep -q '^next: ' out || fail "no next step: $(cat out)"
queue '22_3|RUNNING|None|5:00|1:00:00'
jq '.total_iterations = 100000' status.json >s && mv s status.json
check 1 'ALERT last-task: job 22_3 .* 60 min, .* 13.9 h' watchdog
queue '22_3|RUNNING|None|5:00|1:00:00' '22_4|PENDING|JobArrayTaskLimit|0:00|20:00:00'
check 0 'running: iteration 97' watchdog
# A small change of the time of an iteration does not end the alert of a task.
queue '22_3|RUNNING|None|5:00|1:00:00'
jq '.total_iterations = 97 + 7210' status.json >s && mv s status.json
check 1 'ALERT last-task' watchdog
jq '.total_iterations = 97 + 7000' status.json >s && mv s status.json
check 1 'ALERT last-task' watchdog
jq '.total_iterations = 97 + 5300' status.json >s && mv s status.json
check 0 'running: iteration 97' watchdog
jq '.total_iterations = 97 + 7000' status.json >s && mv s status.json
check 0 'running: iteration 97' watchdog
jq '.total_iterations = 100000' status.json >s && mv s status.json
queue '22|RUNNING|None|5:00|1:00:00' # no array: REQUEUE=1 starts it again
check 0 'running: iteration 97' watchdog
queue '22_3|RUNNING|None|5:00|1-00:00:00'
check 0 'running: iteration 97' watchdog
# The message names the log of the job, and that of the training.
printf '#!/bin/sh\necho "   StdOut=%s/job.log"\n' "$work" >stand-in/scontrol
chmod +x stand-in/scontrol
touch job.log run/log
queue '22_3|RUNNING|None|5:00|1:00:00'
check 1 'ALERT last-task' alert watchdog
grep -q "^log: $work/job.log\$" stand-in/mails || fail "no log: $(cat stand-in/mails)"
grep -q "^log: $work/run/log\$" stand-in/mails || fail "no log: $(cat stand-in/mails)"
grep -q '^next: submit the next array with --dependency=afterany:22$' stand-in/mails || fail "no next step: $(cat stand-in/mails)"
rm -f stand-in/mails stand-in/scontrol state/watchdog.mail.sent state/watchdog.last run/log state/watchdog.progress
queue '21|PENDING|Priority|0:00'
status stopped 75 96 null 5
check 0 'scheduled' watchdog
status stopped 75 91 null 5

# ---- a job of train.sbatch needs no configuration ------------------------------------------------
mkdir -p elsewhere home
cp status.json elsewhere/status.json
by_job() { # CODE PATTERN
    local code=0
    env -i HOME="$work/home" PATH="$work/stand-in:/usr/bin:/bin" "$kit/watchdog" 4711 >out 2>err || code=$?
    [ "$code" = "$1" ] || fail "watchdog 4711: exit $code: $(cat out err)"
    grep -Eq "$2" out || fail "watchdog 4711: no '$2' in: $(cat out)"
}
# The first task waits, so that its directory is not known yet. Later, squeue prints the waiting tasks first.
# reads_job LINE...: a check reads these tasks of the job, and notes its directory.
reads_job() {
    queue "$@"
    env -i HOME="$work/home" PATH="$work/stand-in:/usr/bin:/bin" "$kit/pulse" 4711 >out 2>&1 || true
}
noted_run() { sed -n 's/^RUN_DIRECTORY=//p' home/.local/state/lm-utils/job-4711/site.conf; }
waiting="tiny|$(id -un)|(null)"
reads_job "$waiting"
# The directory of a job is not guessed, before its first task and where it is not mounted: another training may be in ./run.
[ "$(noted_run)" != "$work/run" ] || fail "a guessed directory"
queue '4711|PENDING|Priority|0:00'
by_job 0 '^tiny: scheduled: job 4711 \(Priority\), last iteration none of'
reads_job "tiny|$(id -un)|lm-train:$work/absent"
[ "$(noted_run)" = "$work/absent" ] || fail "RUN_DIRECTORY=$(noted_run)"
queue "tiny|$(id -un)|lm-train:run"
by_job 3 ' job 4711: .* run: '
for tasks in '' "tiny|$(id -un)|lm-train, 3 of 4 nodes, 0 spare:$work/elsewhere" ''; do reads_job "$waiting" ${tasks:+"$tasks"}; done
[ "$(noted_run)" = "$work/elsewhere" ] || fail "RUN_DIRECTORY=$(noted_run)"
queue '4711|PENDING|Priority|0:00'
by_job 0 '^tiny: scheduled: job 4711 \(Priority\), last iteration 91 of 80'
queue ''
by_job 1 '^tiny: ALERT gone'
queue '21|PENDING|Priority|0:00'

# ---- alert: sends a message only on a change, and tries again until it is sent ------------------
mails() { grep -c '^Subject' stand-in/mails 2>/dev/null || true; }
check 0 'scheduled' alert watchdog
[ "$(mails)" = "" ] || fail "a message without an alert: $(cat stand-in/mails)"
queue ''
touch stand-in/down
check 3 'not sent .*/sendmail: \[ALERT\] tiny: watchdog: gone' alert watchdog
rm stand-in/down
check 1 'ALERT gone' alert watchdog
check 1 'ALERT gone' alert watchdog
[ "$(mails)" = 1 ] || fail "repeated: $(cat stand-in/mails)"
grep -q '^Subject: \[ALERT\] tiny: watchdog: gone' stand-in/mails || fail "$(cat stand-in/mails)"
rm stand-in/queue
check 3 'squeue' alert watchdog
[ "$(mails)" = 1 ] || fail "one failure of squeue is worth no message: $(cat stand-in/mails)"
check 3 'squeue' alert watchdog
queue '13|PENDING|Priority|0:00'
check 0 'scheduled' alert watchdog
[ "$(grep '^Subject' stand-in/mails | tail -n 2 | tr '\n' ' ')" = \
    "Subject: [CHECK FAILED] tiny: watchdog Subject: [FINE] tiny: watchdog " ] || fail "$(cat stand-in/mails)"

# One message when the training has finished, and none when the next one starts.
cp status.json before.json
status finished 0 80 null
queue ''
n=$(mails)
for _ in 1 2; do check 0 'finished: iteration 80' alert watchdog; done
[ "$(mails)" = $((n + 1)) ] || fail "the end of the training: $(tail -n 20 stand-in/mails)"
grep -q '^Subject: \[FINISHED\] tiny: watchdog$' stand-in/mails || fail "the end of the training: $(tail -n 20 stand-in/mails)"
mv before.json status.json
rm state/watchdog.progress
queue '13|PENDING|Priority|0:00'
check 0 'scheduled' alert watchdog
[ "$(mails)" = $((n + 1)) ] || fail "a message without an alert: $(tail -n 20 stand-in/mails)"

# A check that takes too long is reported. While an earlier process of a check still runs, the check's alert stays open.
cp -r "$kit" slow
printf '#!/bin/sh\nsleep 5\n' >slow/watchdog
fixed_kit=$kit kit=$work/slow
echo "CHECK_TIMEOUT=0.2" >>site.conf
check 3 '^watchdog: .*CHECK_TIMEOUT=0.2 ' alert watchdog
echo "CHECK_TIMEOUT=60" >>site.conf
# shellcheck disable=SC2016
printf '#!/bin/sh\ncat "$(dirname "$0")/result"\ngrep -q ALERT "$(dirname "$0")/result" && exit 1 || exit 0\n' >slow/backup
echo 'tiny: ALERT backup: full' >slow/result
check 1 'ALERT backup' alert backup
n=$(mails)
echo 'tiny: backup still runs' >slow/result
check 0 'still runs' alert backup
echo 'tiny: ALERT backup: full' >slow/result
check 1 'ALERT backup' alert backup
[ "$(mails)" = "$n" ] || fail "a message without a change: $(cat stand-in/mails)"
printf 'tiny: ALERT backup: full\n/x\033[2J\302\233: Permission denied\n' >slow/result
check 1 '/x \[2J' alert backup
! LC_ALL=C grep -q $'\033\\|\302\233' out || fail "control characters: $(cat -v out)"
[ "$(wc -l <out)" = 2 ] || fail "other lines: $(cat -v out)"
kit=$fixed_kit

# The webhook: its URL is in no process list and in no file of the checks.
python3 - >port 2>posts <<'END' &
import http.server
class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.path, self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True, file=__import__("sys").stderr)
        self.send_response(200)
        self.end_headers()
    def do_GET(self):
        print(self.path, flush=True, file=__import__("sys").stderr)
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
server = http.server.HTTPServer(("127.0.0.1", 0), Hook)
print(server.server_port, flush=True)
server.serve_forever()
END
until [ -s port ]; do sleep 0.05; done
echo "http://127.0.0.1:$(cat port)/secret-4711" >hook
echo "MAIL_TO= WEBHOOK_FILE=$work/hook" >>site.conf
queue ''
check 1 'ALERT gone' alert watchdog
grep -q '/secret-4711 {"text": "\[ALERT\] tiny' posts || fail "the webhook got: $(cat posts)"
! grep -r secret-4711 state out || fail "the URL is repeated"
# When the webhook fails, the mail is not repeated.
echo "MAIL_TO=oncall@localhost WEBHOOK_FILE=$work/no-hook" >>site.conf
echo "http://127.0.0.1:1/" >no-hook
n=$(mails)
queue '13|PENDING|JobHeldUser|0:00'
check 3 'not sent .*webhook .*no-hook' alert watchdog
check 3 'not sent .*webhook .*no-hook' alert watchdog
[ "$(mails)" = $((n + 1)) ] || fail "mail repeated: $(cat stand-in/mails)"
echo "MAIL_TO= WEBHOOK_FILE=$work/hook" >>site.conf
# The dead-man switch: each run that could send its messages requests the URL.
sed 's/secret-4711/beat-4711/' hook >beat
echo "HEARTBEAT_FILE=$work/beat" >>site.conf
check 1 'ALERT held' alert watchdog
grep -q 'beat-4711' posts || fail "no heartbeat: $(cat posts)"
echo http://127.0.0.1:1/ >beat
check 3 'not sent .*heartbeat' alert watchdog
echo "HEARTBEAT_FILE=" >>site.conf

# ---- pulse --------------------------------------------------------------------------------------
queue '12|RUNNING|None|5:00'
check 0 '^\[20.*Z\] PULSE: tiny: stopped, iteration 91 of 80, 0.5 s an iteration, saved 10, jobs: 12 RUNNING' pulse
cmp out main_log.txt || fail "main_log.txt: $(cat main_log.txt)"
# The reason of a run stays in the line, without control characters.
sed -i 's/"reason": "/&a\\n\\u001b[2Jb /' status.json
check 0 "; a  .2Jb it's the" pulse
[ "$(wc -l <out)" = 1 ] || fail "pulse: $(cat out)"
# A start that has saved nothing: the newest step is that of `latest`.
jq '.saved_iteration = null | .step_s = 0.07550427600017429' status.json >s && mv s status.json
echo global_step1094 >run/latest
check 0 ', 0.0755 s an iteration, saved 1094, ' pulse
rm run/latest
# A log of pulse that is a link or a pipe is refused; a step that is a pipe or a device is not read.
for file in victim absent pipe; do
    rm -f main_log.txt
    if [ $file = pipe ]; then mkfifo main_log.txt; else ln -s "$work/$file" main_log.txt; fi
    echo text >victim
    check 3 '^pulse: .*/main_log.txt: cannot be written: ' pulse
done
[ "$(cat victim)" = text ] || fail "pulse follows a link"
[ ! -e absent ] || fail "pulse follows a link"
rm main_log.txt
: >main_log.txt
mkfifo run/latest
check 0 ', saved none, ' pulse
rm run/latest
mv status.json s
for target in /dev/zero pipe; do
    [ -e pipe ] || mkfifo pipe
    ln -sf $target status.json
    check 3 '^watchdog: .*/status.json: is not a file' watchdog
done
mv s status.json
# Others could plant links in a directory in which they can write.
chmod o+w state
check 3 '/state: other users can write there' watchdog
chmod o-w state
# The lines of slurm-status.py. The expected lines are copied from its source.
echo 'PULSE_STYLE=slurm-status' >>site.conf
: >main_log.txt
in_a_day=$(date -d '+1 day +125 seconds' +%Y-%m-%dT%H:%M:%S)
queue '711114_4|gpu_p13|RUNNING|18:15:59|2021-08-16T03:52:02|r7i4n[1-7]' '711115_[5-9%1]|gpu_p13|PENDING|0:00|N/A|(JobArrayTaskLimit)' \
    '6|p|PENDING|0:00|N/A|(Dependency)' '7|p|PENDING|0:00|N/A|(Priority)' "8|p|PENDING|0:00|$in_a_day|(Resources)" \
    '9|p|COMPLETING|5:00|2021-08-16T03:52:02|n1'
check 0 'PULSE: ' pulse
cmp out main_log.txt || fail "main_log.txt: $(cat main_log.txt)"
cat >wanted <<END
tiny is running for 18:15:59 since 2021-08-16T03:52:02 (711114_4 on 'gpu_p13' partition (r7i4n[1-7])
tiny is waiting for the previous Job Array job to finish before scheduling a new one (711115_[5-9%1] on 'gpu_p13' partition)
tiny is waiting for the previous job to finish before scheduling a new one using the dependency mechanism (6 on 'p' partition)
tiny is waiting to be scheduled (7 on 'p' partition)
tiny is scheduled to start in 1 day, 0:02:NN (at $in_a_day) (8 on 'p' partition)
tiny is unknown - fix me: (at 2021-08-16T03:52:02) (9 on 'p' partition) (n1)
END
sed -E 's/^\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\] PULSE: //; s/(in 1 day, 0:02:)[0-9]{2}/\1NN/' out | diff wanted - || fail "slurm-status: $(cat out)"
queue ''
check 0 '\] PULSE: \*\*\*ALERT: tiny is not RUNNING or SCHEDULED! Alert someone at Eng WG\*\*\*$' pulse

# ---- backup and fs-watch ------------------------------------------------------------------------
# While the first job waits in the queue, there is no run directory, which is no failure of the checks.
mv run run.away
queue '12|PENDING|Priority|0:00'
for name in backup fs-watch; do check 0 '/run does not exist yet: ' $name; done
for line in '' '12|RUNNING|None|5:00'; do
    queue "$line"
    for name in backup fs-watch; do check 3 '/run: no such directory' $name; done
done
mv run.away run
queue '12|RUNNING|None|5:00'
lm-train --mock-data --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 100 \
    --micro-batch-size 2 --global-batch-size 2 --lr 1e-3 --threads 1 --eval-iters 0 --train-iters 4 --log-interval 2 \
    --save run --save-interval 2 --log-file run/log --status-file status.json >/dev/null 2>&1
check 0 'backup: \{' backup
[ -e store/global_step4/manifest.json ] || fail "not copied: $(ls store)"
cmp run/log store/logs/log || fail "the log was not copied"
check 0 'backup: \{' backup
echo "BACKUP_FLAGS=--no-such-flag" >>site.conf
check 3 'lm-ckpt sync: exit code 2' backup
echo "BACKUP_FLAGS= BACKUP=/proc/store" >>site.conf
check 1 'ALERT backup: lm-ckpt sync: exit code 3' backup
flock --close state/backup.lock sleep 30 &
until ! flock -n state/backup.lock true; do sleep 0.05; done
check 0 'backup still runs' backup
touch -d '25 hours ago' state/backup.lock
check 1 'ALERT busy: backup .*25.0 h' backup

# A finished training saves nothing more, so fs-watch states no day on which the disk is full.
echo "FS_DAYS=1e12" >>site.conf
check 0 '% of the inodes' fs-watch
! grep -q full out || fail "a finished training fills no disk: $(cat out)"
# The status file lists the saves that need room. The disk has room for 3 of them; the fourth save after iteration 6 is at 14.
free=$(df --output=avail -B1 run | tail -n 1)
planned() { # GROWING_SAVES BYTES
    jq ".state = \"running\" | .iteration = 6 | .saved_iteration = 6 | .step_s = 3600 | .growing_saves = $1 | .step_bytes = $2" status.json >s
    mv s status.json
}
planned '[2,4,6,8,10,12,14,16]' $((free * 3 / 10))
mv run/global_step4 step4 && mv run/global_step2 step2
check 1 "ALERT full: .*/run: .* 3 .*: .* 0.3 days, on $(date -d '+8 hours' +%F), .*iteration 14" fs-watch
echo "FS_DAYS=0.1" >>site.conf
check 0 'room for 3 more steps: full in 0.3 days' fs-watch
planned '[2,4,6,8,10,12]' $((free * 3 / 10))
check 0 'the next 3 saves that need room fit' fs-watch
mv step4 run/global_step4 && mv step2 run/global_step2
check 0 'room for [0-9]{4,} more steps; the next 3 saves that need room fit' fs-watch
# The quota has room for 5 steps of 10 kB, less than the disk. Its unit is 1000 bytes; a quota without a unit is ignored.
planned '[2,4,6,8,10,12,14,16,18,20,22]' 10000
mv run/global_step4 step4 && mv run/global_step2 step2
echo 'QUOTA_COMMAND="echo work 30 80 1000; echo files 1 2"' >>site.conf
check 0 "room for 5 more steps: full in 0.5 days, on $(date -d '+12 hours' +%F), at the save after iteration 18" fs-watch
mv step4 run/global_step4 && mv step2 run/global_step2
echo "FS_PERCENT=-1 QUOTA_COMMAND=" >>site.conf
check 1 'ALERT bytes: ' fs-watch
# shellcheck disable=SC2016
echo 'FS_PERCENT=100 QUOTA_COMMAND="echo work 90 100; echo store 1 0"' >>site.conf
check 3 'is not NAME USED LIMIT' fs-watch
echo 'QUOTA_COMMAND="echo work 190 100"' >>site.conf
check 1 'ALERT quota: work: 190 %' fs-watch
echo 'FS_PATHS=/nonexistent' >>site.conf
check 3 'df: ' fs-watch
mkdir "with space"
echo "FS_PATHS=('$work/with space' /)" >>site.conf
check 1 "^tiny: .*/with space: .*inodes" fs-watch
# A disk on which the checks can write nothing hides no alert.
rm -r state
mkdir -p state/watchdog.last state/watchdog.mail.sent state/watchdog.progress
echo "MAIL_TO=oncall@localhost WEBHOOK_FILE=" >>site.conf
rm -f status.json
queue ''
for n in 1 2; do
    n_before=$(mails)
    check 1 '^alert: .*/state/watchdog.last: ' alert watchdog
    [ "$(mails)" = $((n_before + 1)) ] || fail "no message: $(tail -n 9 stand-in/mails)"
    grep -q 'ALERT gone' <<<"$(tail -n 5 stand-in/mails)" || fail "the message: $(tail -n 9 stand-in/mails)"
done
queue '13|PENDING|Priority|0:00'
check 3 '^watchdog: .*/state/watchdog.progress: ' watchdog
# ---- cron.sbatch: a controller that does not answer, and a job that Slurm holds ------------------
mkdir chain empty
cat >chain/squeue <<'END'
#!/bin/sh
[ -e "$(dirname "$0")/queue" ] || exit 1
case "$*" in *lm-cron-empty*) cat "$(dirname "$0")/queue" ;; esac
END
cat >chain/sbatch <<'END'
#!/bin/sh
cd "$(dirname "$0")"
[ -e failed ] || { touch failed; exit 1; } # the first submission fails
echo "$*" >>submitted
END
printf '#!/bin/sh\necho "$*" >>"%s/chain/cancelled"\n' "$work" >chain/scancel
printf '#!/bin/sh\n: >"%s/chain/queue"\n' "$work" >chain/sleep # the controller answers again
chmod +x chain/*
chain() { PATH=$work/chain:$PATH CRON_SCRIPT=cron.sbatch SLURM_JOB_ID=1 CRON_CHAINS="60:other" bash "$kit/cron.sbatch" 600 empty >out 2>&1; }
chain || fail "cron.sbatch: exit $?: $(cat out)"
grep -q 'lm-cron-empty: squeue failed' out || fail "no squeue: $(cat out)"
grep -Eq 'lm-cron-(empty|other): the next job was not submitted' out || fail "no sbatch: $(cat out)"
for name in empty other; do
    [ "$(grep -c -- "--job-name=lm-cron-$name --begin=.* cron.sbatch" chain/submitted)" -ge 1 ] || fail "$name: $(cat chain/submitted)"
done
rm chain/submitted
echo "77 launch failed requeued held|$PWD" >chain/queue
chain
[ "$(cat chain/cancelled)" = 77 ] || fail "a held job: $(cat out)"
grep -q 'job-name=lm-cron-empty' chain/submitted || fail "a held job: no other one: $(cat out)"
rm chain/submitted
echo "78 BeginTime|/elsewhere" >chain/queue
chain
grep -q 'job-name=lm-cron-empty' chain/submitted || fail "the job of another directory ends this chain: $(cat out)"
rm chain/submitted
ln -s "$PWD" link
echo "78 BeginTime|$PWD/link" >chain/queue
chain
! grep -q lm-cron-empty chain/submitted || fail "a second job of a chain: $(cat chain/submitted)"
# The next job has the partition, account, QOS, time, memory and comment of this one. A chain that another one restarts has its own.
rm chain/queue
cat >chain/squeue <<'END'
#!/bin/sh
case "$*" in *"-j 1 "*) echo "prepost|acc1|(null)|10:00|our checks" ;; *"-j 2 "*) echo "prepost|acc1|(null)|20:00|(null)" ;; *) cat "$(dirname "$0")/queue" 2>/dev/null || true ;; esac
END
rm -f chain/submitted
cat >chain/scontrol <<'END'
#!/bin/sh
printf '   NumNodes=1\n   MinCPUsNode=1 MinMemoryNode=500M MinTmpDiskNode=0\n   Command=/a b/cron.sbatch 600 empty\n   WorkDir=/\n'
END
chmod +x chain/scontrol
chain
grep -q -- '--partition=prepost --account=acc1 --time=10:00 --mem=500M --comment=our checks --job-name=lm-cron-empty' chain/submitted ||
    fail "options: $(cat chain/submitted out)"
grep -q -- '^--parsable --partition=prepost --account=acc1 --job-name=lm-cron-other' chain/submitted || fail "another: $(cat chain/submitted out)"
mkdir other
PATH=$work/chain:$PATH CRON_SCRIPT=cron.sbatch SLURM_JOB_ID=2 bash "$kit/cron.sbatch" 60 other >out 2>&1
rm chain/submitted
chain
grep -q -- '--account=acc1 --time=20:00 --mem=500M --job-name=lm-cron-other' chain/submitted || fail "another: $(cat chain/submitted out)"
rm chain/submitted
PATH=$work/chain:$PATH SLURM_JOB_ID=1 bash "$kit/cron.sbatch" 600 empty >out 2>&1
grep -q -- ' /a b/cron.sbatch 600 empty$' chain/submitted || fail "a path with a space: $(cat chain/submitted out)"
# Two chains have submitted the same next job at the same time: the newer one is cancelled.
cat >chain/sbatch <<'END'
#!/bin/sh
printf '81 BeginTime|%s\n80 BeginTime|%s\n' "$PWD" "$PWD" >"$(dirname "$0")/queue"
END
rm -f chain/cancelled
PATH=$work/chain:$PATH CRON_SCRIPT=cron.sbatch SLURM_JOB_ID=1 bash "$kit/cron.sbatch" 600 empty >out 2>&1
[ "$(cat chain/cancelled)" = 81 ] || fail "doubled: $(cat chain/cancelled out)"
echo "watchdog, alert, pulse, backup and fs-watch in cron's environment"
