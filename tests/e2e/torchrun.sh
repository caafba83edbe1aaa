#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that the real torchrun starts: one node and two (two agents on this host), with the static and the c10d rendezvous, and
# after a restart. With the static one the agent owns MASTER_PORT. Skipped where no torchrun is installed.
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
for python in "$here/../../.venv-megatron/bin/python" "$here/../../.venv/bin/python" python3 /usr/bin/python3; do
    ! "$python" -c "import torch.distributed.run" 2>/dev/null || break
    python=
done
if [ -z "$python" ]; then
    echo "skipped: no torchrun: tools/install-deps --venv installs PyTorch"
    exit 77
fi
unset LM_RENDEZVOUS_TOKEN LM_PLUGIN_DIR
# --tee and --redirects: with Python 3.11, the defaults of PyTorch 1.13 fail. stdout gets a prefix for each rank.
torchrun() {
    "$python" -m torch.distributed.run --no_python --nproc_per_node 2 --tee 1 --redirects 1 --log_dir "$work/logs" "$@"
}

# check NAME N_RANKS: the nodes' outputs in NAME.out have one table with a row of N_RANKS ranks, and nothing failed.
check() {
    local n=$2
    grep -qE "(^|:)$(hostname) " "$1.out" || fail "$1: no table: $(cat "$1.out" "$1.err")"
    ! grep -E "lm-shmcheck: .*(rendezvous|port|store)" "$1.err" | grep -vE "listening on all|have no secret" ||
        fail "$1: $(cat "$1.err")"
    [ "$(cat "$1".world)" = "$n" ] || fail "$1: $(cat "$1".world) ranks instead of $n"
}
# The exit code 1 of lm-shmcheck, a finding, is not a failure of the ranks.
# shellcheck disable=SC2016
command=(sh -c 'code=0; lm-shmcheck --node || code=$?; [ $code -le 1 ] || exit $code; echo "$WORLD_SIZE" >"$0.world"')

# nodes NAME N OPTIONS...: starts N agents, and waits for them.
nodes() {
    local name=$1 n=$2 i code=0 pids=()
    shift 2
    : >"$name.out"
    : >"$name.err"
    for ((i = 0; i < n; i++)); do
        local own=("$@")
        [[ " $* " != *" --master_port "* ]] || own+=(--node_rank "$i")
        torchrun --nnodes "$n" "${own[@]}" "${command[@]}" "$name" >>"$name.out" 2>>"$name.err" </dev/null &
        pids+=($!)
    done
    for i in "${pids[@]}"; do wait "$i" || code=$?; done
    [ $code = 0 ] || fail "$name: exit $code: $(cat "$name.err")"
    check "$name" $((2 * n))
}

nodes static1 1 --master_addr localhost --master_port "$(free_ports 1)"
nodes standalone 1 --standalone
nodes c10d1 1 --rdzv_backend c10d --rdzv_endpoint "localhost:$(free_ports 1)" --rdzv_id one
nodes static2 2 --master_addr localhost --master_port "$(free_ports 1)"
nodes c10d2 2 --rdzv_backend c10d --rdzv_endpoint "localhost:$(free_ports 1)" --rdzv_id two
# Without --save the token is in the store of the agent, which any program can read, or is no secret at all.
for name in static1 standalone c10d1 static2 c10d2; do
    [ "$(grep -c 'LM_RENDEZVOUS_TOKEN=' $name.err)" = 1 ] || fail "$name: not one warning of the token: $(cat $name.err)"
done
export LM_RENDEZVOUS_TOKEN=secret
nodes token 2 --master_addr localhost --master_port "$(free_ports 1)"
! grep 'LM_RENDEZVOUS_TOKEN=' token.err || fail "a warning in spite of the token"
unset LM_RENDEZVOUS_TOKEN

# The ranks of a second start meet again, although the agent's store still has the port of the first start. The shell passes
# torchrun's signal on: a rank 0 of the first start that lives on would be met instead.
# shellcheck disable=SC2016
command=(sh -c '[ $TORCHELASTIC_RESTART_COUNT-$RANK != 0-1 ] || { sleep 1; exit 1; }
    trap "kill \$rank" TERM; code=0; lm-shmcheck --node & rank=$!
    wait $rank || code=$?; [ $code -le 1 ] || exit $code; echo "$WORLD_SIZE" >"$0.world"')
nodes restart 1 --max_restarts 1 --master_addr localhost --master_port "$(free_ports 1)"
echo "torchrun's ranks meet on one node and two, and after a restart"
