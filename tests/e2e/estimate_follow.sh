#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-estimate eta --follow on a log that appears, grows, is truncated and rotated, in a pipe and on a terminal, and
# share/cron/tail-remote on a server with ranges.
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
kit=$(realpath "$here/../../share/cron")

lines() { # FIRST LAST: iterations of 100
    local i
    for ((i = $1; i <= $2; i++)); do
        echo " iteration $i/ 100 | consumed samples: $((i * 8)) | elapsed time per iteration (ms): 500.0 | global batch size: 8 | lm loss: 2.0 |"
    done
}
shows() { # TEXT FILE
    until grep -q -- "$1" "$2"; do
        kill -0 $! 2>/dev/null || fail "no '$1': $(cat "$2")"
        sleep 0.05
    done
}
lm-estimate eta --follow --interval 50ms log >out 2>err &
shows 'no iteration yet' out
lines 1 10 >>log
shows 'iteration 10 of 100, 0.5 s an iteration, 45.0 s left, finish 20' out
lines 18 20 >log # truncated
shows 'iteration 20 of 100' out
mv log log.1 # rotated; the last line follows
lines 21 21 >>log.1
lines 22 30 >log
shows 'iteration 30 of 100' out
lines 31 100 >>log
code=0
wait $! || code=$?
[ $code = 0 ] || fail "exit $code: $(cat out err)"
grep -q '^finished: log:[0-9]*: iteration 100/ 100 ' <<<"$(tail -n 1 out)" || fail "$(tail -n 1 out)"

# The end of a run: the line that states it, and the exit code.
lines 1 5 >log
echo 'srun: error: n1: task 3: Out Of Memory' >slurm.out
expect 1 '' lm-estimate eta --follow --interval 10ms log slurm.out
[ "$(tail -n 1 out)" = 'out_of_memory: slurm.out:1: srun: error: n1: task 3: Out Of Memory' ] || fail "$(cat out)"
# A terminal is cleared and drawn again.
lines 6 100 >>log
rm slurm.out
script -qec 'lm-estimate eta --follow --interval 10ms log' /dev/null </dev/null >terminal || fail "exit $?: $(cat terminal)"
[ "$(grep -c $'\033\[H\033\[2J' terminal)" = 2 ] || fail "not drawn twice: $(cat -v terminal)"
grep -q '^iterations left' terminal || fail "$(cat -v terminal)"
expect 2 '--follow: .*standard input' lm-estimate eta --follow -
expect 2 '--follow: log.gz ' lm-estimate eta --follow log.gz
expect 2 '--interval: .*0' lm-estimate eta --follow --interval 0 log
expect 3 '' lm-estimate eta --follow /
expect 3 '/dev/zero: ' lm-estimate eta --follow /dev/zero

# A published log.
seq -f 'line %.0f' 1000 >published
python3 "$here/range_server.py" >port 2>served &
until [ -s port ]; do sleep 0.05; done
url=http://127.0.0.1:$(cat port)
"$kit/tail-remote" "$url/published" 0 >out || fail "exit $?: $(cat out)"
[ "$(tail -n 1 out) $(head -n 1 out)" = "line 1000 line $((1001 - $(wc -l <out)))" ] || fail "$(cat out)"
[ "$(cat served)" = "206 4000" ] || fail "more than the end: $(cat served)"
"$kit/tail-remote" "$url/published" 0.1 >out 2>err &
shows 'line 1000' out
echo 'line 1001' >>published
shows 'line 1001' out
echo 'after truncation' >published
shows 'after truncation' out
[ "$(grep -c 'line 1001' out)" = 1 ] || fail "repeated: $(tail out)"
# A transfer that ends early, and a log that is missing for a while.
touch cut
seq -f 'next %.0f' 50 >>published
shows 'next 5' out
rm cut
shows 'next 50' out
[ "$(grep '^next' out | sort -u | wc -l) $(grep -c '^next' out)" = "50 50" ] || fail "not once each: $(grep next out)"
mv published hidden
shows 'HTTP status 404' err
mv hidden published
echo 'found again' >>published
shows 'found again' out
[ "$(wc -l <err)" = 1 ] || fail "more than one message: $(cat err)"
printf 'clear\033[2J \302\2335n\ttab ä\n' >>published
shows $'clear \\[2J  5n\ttab ä' out
kill $!
# A hub redirects to the store of its large files.
grep -q 'found again' <<<"$("$kit/tail-remote" "$url/moved/published" 0)" || fail "a redirection"
expect 3 '/whole/published: .*ranges' "$kit/tail-remote" "$url/whole/published" 0
# A server that sends for ever fills no disk.
(
    ulimit -f 65536
    expect 3 '/endless/published: .*ranges' "$kit/tail-remote" "$url/endless/published" 0
) || exit 1
expect 3 '/missing: .*404' "$kit/tail-remote" "$url/missing" 0
expect 3 '' "$kit/tail-remote" http://127.0.0.1:1/published 0
echo "followed a log and a published log"
