#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate eta: figures of published trainings, an artificial log with all kinds of events, new logs of lm-train,
# and files that are not logs.
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"

# field FILE KIND KEY: prints a value of the JSON of eta.
field() { jq -r "select(.kind == \"$2\").$3" "$1"; }
# near A B: succeeds if the relative difference of A and B is at most 1e-6.
near() { awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(d * d <= 1e-12 * b * b) }'; }

# BLOOM's chronicle: (115311 - 12695) x 105.22 s = 125 days; at 192755367936 of 341 billion tokens 43 days were left.
cat >bloom.log <<'END'
 iteration    12695/  115311 | consumed samples:      9841584 | consumed tokens:  20155564032 | elapsed time per iteration (s): 105.22 | learning rate: 5.969E-05 | global batch size:  2048 | lm loss: 2.463556E+00 | grad norm: 0.174 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 19.463 | TFLOPs: 149.02 |
END
run bloom.json lm-estimate eta bloom.log --hours-per-day 20 --json
near "$(field bloom.json eta left)" "$(awk 'BEGIN { printf "%.3f", (115311 - 12695) * 105.22 }')" || fail "$(cat bloom.json)"
near "$(field bloom.json eta calendar)" "$(awk 'BEGIN { printf "%.3f", (115311 - 12695) * 105.22 * 1.2 }')" || fail "$(cat bloom.json)"
[ "$(field bloom.json eta 'tflops | round')" = 149 ] || fail "$(cat bloom.json)"
sed 's/consumed samples: *[0-9]*/consumed samples: 94118832/; s/20155564032/192755367936/; s/105.22/105.00/' bloom.log >tokens.log
run tokens.json lm-estimate eta tokens.log --train-tokens 341B --json
awk -v s="$(field tokens.json eta left)" 'BEGIN { d = s / 86400; exit !(d > 42.953 && d < 42.956) }' || fail "$(cat tokens.json)"
# The published 42.95311 days count fractions of an iteration. With iterations of one sample, the result is equal.
sed 's/consumed samples: *[0-9]*/consumed samples: 94118832/; s/20155564032/192755367936/; s/105.22/0.05126953125/; s/size: *2048/size: 1/; s/samples per second: [0-9.]* |//' \
    bloom.log >sample.log
run tokens.json lm-estimate eta sample.log --train-tokens 341B --json
awk -v s="$(field tokens.json eta left)" 'BEGIN { exit !(sprintf("%.5f", s / 86400) == "42.95311") }' || fail "$(cat tokens.json)"
sed 's/105.22/105.00/' bloom.log >days.log
run days.json lm-estimate eta days.log --json
awk -v s="$(field days.json eta left)" 'BEGIN { exit !(sprintf("%.1f", s / 86400) == "124.7") }' || fail "$(cat days.json)"
# 13B's chronicle: 784 samples in 32 s, 24.5 a second; 145 million samples at 20 hours a day take 82 days, 41 on 64 nodes and
# about 20 on 128.
sed 's/iteration *12695.*consumed tokens: *[0-9]*/iteration 6400\/ 191328 | consumed samples: 5000000/; s/105.22/32.00/; s/size: *2048/size: 784/' \
    bloom.log >nodes.log
run nodes.json lm-estimate eta nodes.log --train-samples 150M --json
near "$(field nodes.json eta samples_per_s)" 24.5 || fail "$(cat nodes.json)"
for expected in "32 82.2" "64 41.1" "128 20.5"; do
    run nodes.json lm-estimate eta nodes.log --train-samples 150M --hours-per-day 20 --log-nodes 32 --nodes "${expected% *}" --json
    awk -v s="$(field nodes.json eta calendar_with_nodes)" -v days="${expected#* }" \
        'BEGIN { exit !(sprintf("%.1f", s / 86400) == days) }' || fail "$expected: $(cat nodes.json)"
done
run bloom.txt lm-estimate eta bloom.log --explain --hours-per-day 20
grep -Eq '^time left +124 d 23 h$' bloom.txt || fail "$(cat bloom.txt)"
grep -Eq '^calendar time +149 d 23 h$' bloom.txt || fail "$(cat bloom.txt)"
grep -Eq '^  time left: iterations left x ' bloom.txt || fail "no formula: $(cat bloom.txt)"

# The mean time of an iteration in a log, as the one-liner of BigScience's README prints it: 13 s.
for ms in 13248.2 13000.5 12999.0; do
    echo " iteration 1/ 9 | elapsed time per iteration (ms): $ms | learning rate: 1.000E-05 | lm loss: 2.0 |"
done | awk '{ sub("iteration 1/", "iteration " NR "/") } 1' >mean.log
run mean.json lm-estimate eta mean.log --json
near "$(field mean.json average step_s)" "$(awk 'BEGIN { printf "%.9f", (13.2482 + 13.0005 + 12.999) / 3 }')" || fail "$(cat mean.json)"
[ "$(field mean.json average 'step_s | floor')" = 13 ] || fail "$(cat mean.json)"

# 13B's log, from the time before it counted tokens, after its ramp.
cat >tr1.log <<'END'
1:  iteration   168000/  311541 | consumed samples:    153013584 | elapsed time per iteration (ms): 13248.2 | learning rate: 1.000E-05 | global batch size:  1024 | lm loss: 2.376641E+00 | loss scale: 131072.0 | grad norm: 19767.052 | num zeros: 0.0 | number of skipped iterations:   0 | number of nan iterations:   0 |
1: time (ms)
END
ramp=(--rampup-batch-size 16 16 5_000_000 --global-batch-size 1024)
run tr1.json lm-estimate eta tr1.log "${ramp[@]}" --train-samples 300M --json
[ "$(field tr1.json eta total_iterations)" = 311541 ] || fail "$(cat tr1.json)"
run tr1.json lm-estimate eta tr1.log "${ramp[@]}" --train-samples 150M --json
[ "$(field tr1.json eta iterations_left)" = 0 ] || fail "more than all: $(cat tr1.json)"
run odd.txt lm-estimate eta tr1.log --global-batch-size 2048 --train-samples 300M
grep -q ' 1024 samples.* 2048' odd.txt.err || fail "$(cat odd.txt.err)"

# A ramp to 256 by 16 over 200000 samples; a step takes 1 s and 20 ms a sample; at iteration 700 the node is down for an
# hour and the run resumes from iteration 650; rank 6 prints, too; lines are truncated and mixed.
awk -v stop=1200 '
function batch(c) { return c > 200000 ? 256 : 16 + int(c / (200000 / 15)) * 16 }
function stamp() { return strftime("[%Y-%m-%d %H:%M:%S", 1767225600 + int(clock), 1) sprintf(".%06d]", (clock - int(clock)) * 1e6) }
function say(rank) {
    printf "[default%d]: %s iteration %8d/%8d | consumed samples: %12d | consumed tokens: %12d |", rank, stamp(), n, total, c, c * 512
    printf " elapsed time per iteration (ms): %.1f | learning rate: 1.000E-04 | global batch size: %5d |", took * 100, b
    printf " lm loss: nan | grad norm: inf | number of skipped iterations:   0 | number of nan iterations:   1 |\n"
}
BEGIN {
    for (c = 0; c + batch(c) <= 1000000; c += batch(c)) total++
    c = 0
    print "will use batch size rampup starting from global batch size 16 to global batch size 256 with batch size increments 16 over 200000 samples."
    while (n < stop) {
        took = 0
        for (i = 0; i < 10; i++) { b = batch(c); took += 1 + 0.02 * b; c += b; n++ }
        clock += took; say(7)
        if (n % 90 == 0) { say(6); print "node1:77:99 [3] NCCL INFO Channel 00 : 0[0] -> 1[0] via P2P/IPC" }
        if (n % 170 == 0) printf " iteration %8d/%8d | consumed sam", n, total
        if (n % 110 == 0) printf "loading:  10%%\rloading: 100%%\r\n"
        if (n == 650) at = c
        if (n == 700 && !gone) { gone = 1; clock += 3600; n = 650; c = at; print "  successfully loaded checkpoint from x at iteration 650" }
    }
    while (c + batch(c) <= 1000000) { b = batch(c); c += b; left += 1 + 0.02 * b }
    printf "%.2f\n", left >"left.txt"
}' >made.log
run made.json lm-estimate eta made.log --json
near "$(field made.json eta left)" "$(cat left.txt)" || fail "$(cat left.txt) s are left: $(cat made.json)"
[ "$(field made.json eta total_iterations)" = "$(sed -nE 's#.*/ +([0-9]+) \| .*#\1#p' made.log | tail -1)" ] || fail "$(cat made.json)"
[ "$(jq -c 'select(.kind == "stop") | [.last_iteration, .resumed_after, .repeated, .restarted, (.missing | round)]' made.json)" = \
    '[700,650,50,true,3600]' ] || fail "$(cat made.json)"
[ "$(field made.json log damaged)" = 8 ] || fail "$(cat made.json)"
[ "$(field made.json log duplicates)" = 13 ] || fail "$(cat made.json)"
[ "$(field made.json log computed)" = 1250 ] || fail "$(cat made.json)"
grep -q ' made.log: .* 8$' made.json.err || fail "$(cat made.json.err)"
# The results are the same when flags give the values that the log does not contain.
grep -v rampup made.log >unsaid.log
run unsaid.json lm-estimate eta unsaid.log --rampup-batch-size 16 16 200_000 --global-batch-size 256 --json
near "$(field unsaid.json eta left)" "$(cat left.txt)" || fail "$(cat unsaid.json)"
# Early in the ramp the log has no data on larger batches.
head -3 made.log >early.log
run early.json lm-estimate eta early.log --json
grep -q ' step time .*proportional' early.json.err || fail "$(cat early.json.err)"

# All forms of input.
same() { jq -c 'del(.age, .finish, .finish_with_stops)' "$1"; }
gzip -k made.log
xz -k made.log
zstd -q made.log
head -100 made.log >made.1
tail -n +101 made.log >made.2
for log in made.log.gz made.log.xz made.log.zst "made.1 made.2"; do
    read -ra files <<<"$log"
    run again.json lm-estimate eta "${files[@]}" --json
    cmp <(same made.json) <(same again.json) || fail "$log: $(cat again.json)"
done
# Logs that overlap: a copy, the first and the last part, and both parts with the whole.
once() { same "$1" | jq -c 'del(.lines, .logged, .overlapping, .duplicates)'; }
tail -n +60 made.log >made.3
for log in "made.log made.log" "made.1 made.log" "made.3 made.log" "made.1 made.3" "made.2 made.log.gz made.1"; do
    read -ra files <<<"$log"
    run again.json lm-estimate eta "${files[@]}" --json
    cmp <(once made.json) <(once again.json) || fail "$log: $(cat again.json)"
    grep -Eq 'note: .*overlap.* [0-9]+: ' again.json.err || fail "$log: $(cat again.json.err)"
done
lm-estimate eta - --json <made.log >again.json 2>/dev/null
cmp <(same made.json) <(same again.json) || fail "standard input: $(cat again.json)"

# A log of lm-train, of a run that was stopped and resumed.
args=(--num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 64 --mock-data --threads 1
    --micro-batch-size 2 --global-batch-size 8 --rampup-batch-size 4 4 40 --train-iters 60 --lr 1e-3 --log-interval 2
    --save save --log-json steps.json --log-file lines.log)
code=0
lm-train "${args[@]}" --exit-interval 20 >train.log 2>&1 || code=$?
[ $code = 75 ] || fail "--exit-interval: exit $code: $(cat train.log)"
code=0
lm-train "${args[@]}" --load save --exit-interval 21 >>train.log 2>&1 || code=$?
[ $code = 75 ] || fail "--exit-interval: exit $code: $(cat train.log)"
for log in train.log steps.json lines.log; do
    run lm.json lm-estimate eta $log "${args[@]}" --json
    [ "$(field lm.json eta iteration)" = "$(sed -nE 's#^ iteration +([0-9]+)/.*#\1#p' train.log | tail -1)" ] || fail "$log: $(cat lm.json)"
    [ "$(field lm.json eta total_iterations)" = 60 ] || fail "$log: $(cat lm.json)"
    [ "$(field lm.json log damaged)" = 0 ] || fail "$log: $(cat lm.json)"
    [ "$(field lm.json eta samples_left)" = $((8 * $(field lm.json eta iterations_left))) ] || fail "$log: $(cat lm.json)"
    awk -v s="$(field lm.json average step_s)" 'BEGIN { exit !(s > 0 && s < 1) }' || fail "$log: $(cat lm.json)"
    [ "$(field lm.json log restarts)" = 1 ] || fail "$log: $(cat lm.json)"
    # The last run has stopped after iteration 41, of which no line is logged.
    [ "$(field lm.json log computed)" = 41 ] || fail "$log: $(cat lm.json)"
    [ "$(jq -c 'select(.kind == "stop") | [.last_iteration, .resumed_after]' lm.json)" = '[20,20]' ] || fail "$log: $(cat lm.json)"
done
# The energies of two files are added: that of a start of lm-train, and one by CodeCarbon with 2 kWh.
mkdir energy
printf 'run_id,duration,emissions,energy_consumed,cpu_energy\na,60,0.1,1,0.7\na,120,0.2,2,1.5\n' >energy/emissions.csv
run energy.log lm-train "${args[@]:0:27}" --exit-iteration 2 --codecarbon-dir energy --codecarbon-cpu-power 36000 --codecarbon-intensity 50
run lm.json lm-estimate eta steps.json "${args[@]}" --codecarbon-dir energy --json
jq -es '.[] | select(.kind == "energy") | .files == 2 and .runs == 2 and .energy_kwh > 2 and .cpu_kwh > 1.5 and .host_time > 120 and .co2_kg > 0.2' \
    lm.json >/dev/null || fail "energy: $(cat lm.json energy/*)"
expect 3 " save: .*emissions" lm-estimate eta steps.json "${args[@]}" --codecarbon-dir save
# The events of a run in the JSON log; and its wall time, from the JSON log and from the text log.
[ "$(jq -r 'select(.kind | . != "step" and . != "validation") | .kind + ":" + (.generation | tostring)' steps.json | tr '\n' ' ')" = \
    "start:1 save:1 stop:1 start:2 resume:2 save:2 stop:2 " ] || fail "$(cat steps.json)"
jq -es '[.[] | select(.kind == "stop")] | all(.exit_code == 75 and (.reason | test("--exit-interval")))' steps.json >/dev/null || fail "$(cat steps.json)"
jq -es '[.[] | select(.kind == "start")] | all(.elapsed_s > 0)' steps.json >/dev/null || fail "$(cat steps.json)"
awk '{ $1 = ""; print }' lines.log >unstamped.log
for log in steps.json lines.log; do
    run lm.json lm-estimate eta $log --json
    awk -v w="$(field lm.json log wall)" -v c="$(field lm.json log computing)" 'BEGIN { exit !(w != "null" && w + 2 > c) }' || fail "$log: $(cat lm.json)"
done
# Several logs are read in the order of time: two runs with an hour between them.
jq -c 'select(.generation != 2)' <(sed '/"generation":2/,$d' steps.json) >first.json
sed -n '/"generation":2/,$p' steps.json | jq -c '.time += 3600' >second.json
run ordered.json lm-estimate eta first.json second.json --json
[ ! -s ordered.json.err ] || fail "$(cat ordered.json.err)"
[ "$(jq -c 'select(.kind == "stop") | [.restarted, .missing > 3599 and .missing < 3700]' ordered.json)" = '[true,true]' ] || fail "$(cat ordered.json)"
run lm.json lm-estimate eta second.json first.json --json
cmp <(same ordered.json) <(same lm.json) || fail "the order: $(cat lm.json)"
grep -q 'note: .*: first.json second.json' lm.json.err || fail "$(cat lm.json.err)"
run lm.json lm-estimate eta unstamped.log second.json --json
grep -q 'warning: unstamped.log: .*: unstamped.log second.json' \
    lm.json.err || fail "$(cat lm.json.err)"
# The JSON log and the text of the same run.
run one.json lm-estimate eta steps.json --json
for log in "steps.json train.log" "train.log steps.json" "lines.log steps.json train.log"; do
    read -ra files <<<"$log"
    run lm.json lm-estimate eta "${files[@]}" --json
    for key in computed restarts repeated; do
        [ "$(field lm.json log $key)" = "$(field one.json log $key)" ] || fail "$log: $key: $(cat lm.json)"
    done
done
# The assumptions about a log that does not state its start, and about logs without time stamps.
jq -c 'select(.kind == "step") | .time += 3600' second.json >cut.json
run lm.json lm-estimate eta first.json cut.json --json
grep -q 'note: .* 10 min 00 s (--gap) .*: 1:' lm.json.err || fail "$(cat lm.json.err)"
[ "$(field lm.json log restarts)" = 1 ] || fail "$(cat lm.json)"
awk -v w="$(field lm.json time_use waiting)" 'BEGIN { exit !(w > 7100 && w < 7201) }' || fail "$(cat lm.json)"
grep -v '^lm-train' train.log | grep -E '^ iteration +[0-9]+/' >iterations.log
head -5 iterations.log >early.part
tail -n +6 iterations.log >late.part
run lm.json lm-estimate eta late.part early.part --json
grep -q 'note: .*time stamps: 1:' lm.json.err || fail "$(cat lm.json.err)"
grep -q ': early.part late.part' lm.json.err || fail "$(cat lm.json.err)"
# An error ends a run: both logs have it, also when the run has not begun to train.
expect 2 '--seq-length: ' lm-train "${args[@]}" --load save --seq-length 32 --exit-interval 1
tail -n 1 steps.json | jq -e '.kind == "error" and .exit_code == 2 and (.reason | test("seq-length"))' >/dev/null || fail "$(tail -n 1 steps.json)"
grep -q 'Z lm-train: --seq-length' <<<"$(tail -n 1 lines.log)" || fail "$(tail -n 1 lines.log)"
run why.json lm-estimate eta --why steps.json --json
[ "$(jq -r .cause why.json)" = failed ] || fail "$(cat why.json)"

# Files that are not logs, and logs without some of the values.
: >empty.log
printf 'time (ms)\n iteration 5/ 10 | consumed' >none.log
echo ' iteration 5/ 10 | elapsed time per iteration (ms): 10.0 | learning rate: 1.000E-05 | lm loss: 2.0 |' >old.log
expect 3 '^lm-estimate: empty.log: .* 0 lines' lm-estimate eta empty.log
expect 3 '^lm-estimate: none.log: .* 2 lines \(1 ' lm-estimate eta none.log
# The age of the last line. A complete training is never too old.
fresh() { # SECONDS_AGO: a log of 3 of 9 iterations
    for i in 1 2 3; do
        printf '{"kind":"step","time":%d,"iteration":%d,"total_iterations":9,"consumed_samples":%d,"step_s":2,' \
            $(($(date +%s) - $1 - 6 + 2 * i)) $i $((i * 8))
        echo '"learning_rate":1e-3,"global_batch_size":8,"lm_loss":3,"skipped_iterations":0,"nan_iterations":0}'
    done >fresh.json
}
fresh 5
expect 0 '' lm-estimate eta fresh.json --max-age auto
prints '^age of the last line +[5-9]' lm-estimate eta fresh.json
fresh 300
expect 1 'warning: .* 5 min .* 20' lm-estimate eta fresh.json --max-age auto
expect 0 '' lm-estimate eta fresh.json --max-age 10m
expect 1 'warning: .* 5 min .* 4 min' lm-estimate eta fresh.json --max-age 4m
expect 0 '' lm-estimate eta fresh.json --max-age 4m --train-iters 3
for age in x soon -5m; do
    expect 2 "--max-age: .*'$age'" lm-estimate eta fresh.json --max-age=$age
done
# 100x is 100 times the 2 s between two lines. A log without time stamps has the age of its file; standard input has no age.
expect 1 'warning: .* 3 min 20 s' lm-estimate eta fresh.json --max-age 100x
expect 0 '' lm-estimate eta fresh.json --max-age 200x
expect 2 '--max-age: .*0' lm-estimate eta fresh.json --max-age 0x
expect 0 '' lm-estimate eta tr1.log --max-age 5m
touch -d '20 minutes ago' tr1.log
expect 1 'warning: .* 20 min .* 5 min' lm-estimate eta tr1.log --max-age 5m
code=0
lm-estimate eta - --max-age 5m <tr1.log >out 2>err || code=$?
{ [ $code = 3 ] && grep -q ' standard input.*time stamps' err; } || fail "exit $code: $(cat err)"

# Where the time went: the hour without a node, and 50 iterations that were computed twice. 120 iterations had a NaN.
run made.json lm-estimate eta made.log --json
near "$(field made.json time_use restarting)" 3600 || fail "$(cat made.json)"
# The ten iterations of the first line, of 1.32 s each, were before its time stamp.
near "$(field made.json time_use total)" "$(jq 'select(.kind == "log") | .wall + 13.2' made.json)" || fail "$(cat made.json)"
[ "$(field made.json log nan)" = 120 ] || fail "$(cat made.json)"
run made.txt lm-estimate eta made.log
grep -Eq '^starts +1 h 00 min +[0-9]+\.[0-9] %$' made.txt || fail "$(cat made.txt)"
# Other nodes: 13B had 32 nodes and 24.5 samples a second; 82 days of 20 hours are left, 41 on 64 nodes, 20 on 128.
awk 'BEGIN { print "iteration 1000/ 142602 | consumed samples: 1024000 | elapsed time per iteration (s): 41.796 | global batch size: 1024 |" }' >s2.log
for nodes in 32 64 128; do
    run nodes.json lm-estimate eta s2.log --train-samples 146_024_000 --nodes $nodes --log-nodes 32 --hours-per-day 20 --json
    near "$(field nodes.json eta calendar_with_nodes)" "$(awk -v n=$nodes 'BEGIN { printf "%.12g", 141601 * 41.796 * 1.2 * 32 / n }')" || fail "$(cat nodes.json)"
done
awk -v s="$(field nodes.json eta calendar)" 'BEGIN { exit !(s / 86400 > 82.1 && s / 86400 < 82.3) }' || fail "$(cat nodes.json)"
# The fit over the ramp gives 1 s and 20 ms a sample. On two nodes a step takes 1 s and 10 ms for each sample of the batch.
run nodes.json lm-estimate eta made.log --log-nodes 1 --nodes 2 --json
near "$(field nodes.json eta left_with_nodes)" "$(awk -v l="$(cat left.txt)" -v i="$(field nodes.json eta iterations_left)" 'BEGIN { printf "%.6f", i + (l - i) / 2 }')" ||
    fail "$(cat nodes.json)"
sed 's/"kind":"step"/&,"nodes":0/; 1i {"kind":"start","time":1,"nodes":"n[1-4]"}' fresh.json >named.json
run nodes.json lm-estimate eta named.json --nodes 2 --json
[ "$(field nodes.json eta nodes)" = 4 ] || fail "$(cat nodes.json)"
near "$(field nodes.json eta left_with_nodes)" 24 || fail "$(cat nodes.json)"
expect 2 '--nodes: .*--log-nodes' lm-estimate eta tr1.log --nodes 2
expect 2 '--log-nodes: .*--nodes' lm-estimate eta tr1.log --log-nodes 2

# --why finds the line of the first failure in the logs of a job, not the lines of its effects.
{ echo ' iteration 1/ 9 | elapsed time per iteration (ms): 10.0 |' && echo 'lm-train: rank 1 on n2: lost the connection to rank 0 at n1'; } >rank1.log
echo 'srun: error: n1: task 0: Killed' >slurm.out
run why.json lm-estimate eta --why rank1.log slurm.out --json
[ "$(jq -c '[.cause, .rank, .host, .signal, .log, .line_number]' why.json)" = '["killed",0,"n1",9,"slurm.out",1]' ] || fail "$(cat why.json)"
prints '^slurm.out:1: srun: error: n1: task 0: Killed$' lm-estimate eta --why rank1.log slurm.out
prints '^cause +stopped$' lm-estimate eta --why train.log
expect 1 ' lines: 3.' lm-estimate eta --why fresh.json
expect 2 '^lm-estimate: missing.log: ' lm-estimate eta missing.log
expect 2 ' LOG: ' lm-estimate eta
expect 2 '--train-samples: .* old.log ' lm-estimate eta old.log --train-samples 100
expect 2 '--train-iters: .*--train-samples' lm-estimate eta bloom.log --train-samples 100 --train-iters 5
expect 2 '--hours-per-day: .*0 .*24, got 25' lm-estimate eta bloom.log --hours-per-day 25
expect 2 '--rampup-batch-size: .*--global-batch-size' lm-estimate eta bloom.log --rampup-batch-size 16 16 100
expect 2 '--window: .*1, got 0' lm-estimate eta bloom.log --window 0
run old.json lm-estimate eta old.log --json
near "$(field old.json eta left)" 0.05 || fail "$(cat old.json)"
head -c 2000 made.log.gz >cut.log.gz
expect 3 ' cut.log.gz: ' lm-estimate eta cut.log.gz
