#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The lines of a start, the status line, and the check of the hosts: a host with another limit gets a warning, and a single
# host is not checked.
# labels: e2e;mpi
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

args=(--mock-data --num-layers 1 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --vocab-size 64 --micro-batch-size 1
    --global-batch-size 6 --train-iters 1 --lr 1e-3 --threads 1 --eval-iters 0)
# hosts FLAGS...: runs lm-train on the hosts a, b and c. b has a low limit of open files.
# shellcheck disable=SC2016
hosts() {
    local command='[ $LM_HOST != b ] || ulimit -n 333; exec lm-train "$@"'
    mpirun -n 1 -x LM_HOST=a sh -c "$command" sh "${args[@]}" "$@" : -n 1 -x LM_HOST=b sh -c "$command" sh "${args[@]}" "$@" : \
        -n 1 -x LM_HOST=c sh -c "$command" sh "${args[@]}" "$@" >out 2>err </dev/null || fail "exit $?: $(cat err)"
}
hosts --log-file log
for line in '> program      lm-train [0-9.]*' '> started by   mpirun: 3 ranks, Open MPI' '> hosts        3: a,b,c$' \
    '> libraries    glibc [0-9.]*, oneDNN [0-9.]*, fmt [0-9.]*' '> model        [0-9]* parameters' '> devices      cpu (1 thread.*) on each rank$' \
    'warning: node check: b: .* 333, [0-9]* '; do
    grep -q "$line" err || fail "no '$line': $(cat err)"
    grep -q "Z .*$line" log || fail "no '$line' in --log-file: $(cat log)"
done
# A host that cannot write to --save ends the start, because no save would succeed. The message names its rank and host.
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
    mkdir shared
    # shellcheck disable=SC2016
    read_only='[ $LM_HOST != b ] || { mount --bind shared shared && mount -o remount,ro,bind shared; }; exec lm-train "$@"'
    # shellcheck disable=SC2016
    expect 3 'rank 1 on b: shared.*Read-only file system.*exclude this host' \
        mpirun -n 1 -x LM_HOST=a sh -c 'exec lm-train "$@"' sh "${args[@]}" --save shared : \
        -n 1 -x LM_HOST=b unshare -m sh -c "$read_only" sh "${args[@]}" --save shared : \
        -n 1 -x LM_HOST=c sh -c 'exec lm-train "$@"' sh "${args[@]}" --save shared
    # The file system is not mounted on a host, so that its directory is another one.
    # shellcheck disable=SC2016
    other='[ $LM_HOST != b ] || mount -t tmpfs tmpfs shared; exec lm-train "$@"'
    # shellcheck disable=SC2016
    expect 3 'rank 1 on b: shared: .*exclude this host' \
        mpirun -n 1 -x LM_HOST=a sh -c 'exec lm-train "$@"' sh "${args[@]}" --save shared : \
        -n 1 -x LM_HOST=b unshare -m sh -c "$other" sh "${args[@]}" --save shared
    [ -z "$(find shared -name '.lm-node-check*')" ] || fail "left behind: $(ls -A shared)"
fi
hosts --no-node-check
! grep -q 'warning: node' err || fail "--no-node-check: $(cat err)"
# The log file has the notes that were printed before it was opened.
run early lm-train "${args[@]}" --save new --load new --log-file early.log
grep -q 'Z lm-train: note: new: .*iteration 0' early.log || fail "no early note: $(cat early.log)"
# A refused start leaves its problems, each once, in the logs that the command line names; --dry-run writes none.
expect 2 "--lr: 'fast'" lm-train "${args[@]}" --log-file refused.log --log-json refused.json --lr fast --threads many
[ "$(grep -c 'Z lm-train: --\(lr\|threads\): ' refused.log)" = 2 ] || fail "--log-file of a wrong command line: $(cat refused.log)"
[ "$(jq -r '.kind, .exit_code' refused.json | paste -sd' ')" = 'error 2' ] || fail "--log-json: $(cat refused.json)"
for wrong in "--lr: .*--min-lr 1|--min-lr 1" "nodir: --load: |--load nodir"; do
    # shellcheck disable=SC2086
    expect 2 "${wrong%|*}" lm-train "${args[@]}" --log-file refused.log ${wrong#*|}
    [ "$(grep -c "Z lm-train: ${wrong%|*}" refused.log)" = 1 ] || fail "no '$wrong', or twice: $(cat refused.log)"
done
expect 2 '--lr: .*--min-lr 1' lm-train "${args[@]}" --log-file dry.log --min-lr 1 --dry-run
[ ! -e dry.log ] || fail "--dry-run writes a log: $(cat dry.log)"
run one mpirun -n 2 lm-train "${args[@]}"
! grep -q 'warning: node' one.err || fail "one host: $(cat one.err)"

# A terminal shows a status line between the log lines; --quiet and a pipe show none, and --quiet no notes.
if command -v script >/dev/null; then
    longer=("${args[@]}" --global-batch-size 1000 --train-iters 20 --log-interval 20 --save saved)
    on_terminal() {
        local words
        rm -rf saved
        printf -v words '%q ' lm-train "${longer[@]}" "$@"
        TERM=xterm script -qec "stty cols 200; $words" /dev/null </dev/null | tr '\r' '\n' >terminal
    }
    on_terminal
    grep -Eq 'training: .* [0-9]+ % [0-9]+/640000 tokens, .*tokens/s, .*iteration [0-9]+ of 20' terminal ||
        fail "no status line: $(cat terminal)"
    grep -q 'note: saved/global_step20: saved' terminal || fail "no note: $(cat terminal)"
    on_terminal --quiet
    ! grep -E 'training: |note: ' terminal || fail "--quiet: $(cat terminal)"
    grep -q ' iteration  *20/' terminal || fail "--quiet without log lines: $(cat terminal)"
    rm -rf saved
    run piped lm-train "${longer[@]}"
    ! grep -q 'training: ' piped.err || fail "a status line in a pipe: $(cat piped.err)"
fi
echo "the start names hosts and devices, and the odd host"
