# SPDX-License-Identifier: Apache-2.0
# Runs with two tiers of saves, for tests; sourced after mpirun.bash. Each host has its directory in local/, the durable
# steps are in run/.

# The number of samples in a batch is a multiple of 3 and of 4, the numbers of hosts.
args=(--num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 16 --vocab-size 64 --mock-data --micro-batch-size 1
    --global-batch-size 12 --lr 1e-3 --threads 1 --eval-iters 0 --train-iters 20 --save-interval 10 --use-distributed-optimizer
    --log-interval 1 --no-node-check)
# train HOSTS FLAGS...: runs lm-train with a rank on each of these hosts. The host $fault_host, by default d, has $fault as its
# LM_IO_FAULT.
train() {
    local command=() host given
    for host in $1; do
        given=(-n 1 -x "LM_HOST=$host")
        if [ "$host" = "${fault_host:-d}" ] && [ -n "${fault:-}" ]; then given+=(-x "LM_IO_FAULT=$fault"); fi
        command+=("${given[@]}" lm-train "${args[@]}" "${@:2}" :)
    done
    mpirun "${command[@]::${#command[@]}-1}"
}
# tiers HOSTS FLAGS...: runs train with both tiers of saves. stdout is in the file `out`, stderr in the file `err`.
tiers() { train "$1" --save run --load run --local-save local --local-save-interval 2 "${@:2}" >out 2>err </dev/null; }
# resumes_from STEP: the run whose output is in err began after iteration STEP.
resumes_from() { grep -q "$resumed $1," err || fail "not from iteration $1: $(cat err)"; }
# ends_with_same_bits WHAT: the newest step of run/ is that of the undisturbed run in whole/; WHAT names the run.
ends_with_same_bits() {
    local last
    last=$(head -n1 whole/latest)
    lm-ckpt diff "whole/$last" "run/$last" >differences || fail "$1: other bits"
    lm-ckpt verify run >verified || fail "$1: lm-ckpt verify: $(cat verified)"
    [ -z "$(find run local -name '*.tmp*')" ] || fail "left behind: $(find run local -name '*.tmp*')"
}
