#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of one rank of four at random moments: the other ranks end, the job fails, and
# the run that is restarted until it is done ends with the bits of an uninterrupted run. $2 is the number
# of kills (the long form: 50).
# labels: long;mpi
# timeout: 1100
here=$(dirname "$(realpath "$0")")
n_kills=${2:-4}
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

make_corpus corpus.jsonl 200
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 1 --global-batch-size 4
    --train-iters $((60 + 100 * n_kills)) --lr 1e-3 --data-path data_text_document --split 100 --eval-iters 0
    --save-interval 5 --threads 1 --log-interval 10 --tensor-model-parallel-size 2 --use-distributed-optimizer
    --overlap-grad-reduce --overlap-param-gather --ddp-bucket-size 5000)
run whole.log mpirun -n 4 lm-train "${args[@]}" --save whole
last=$(head -n1 whole/latest)

# Prints the ranks of the job whose mpirun is $1.
ranks_of() { ps -o pid= --ppid "$1" | tr -d ' '; }
# Succeeds if any of these processes runs. mpirun ends shortly before the last ranks that it has killed.
alive() {
    local pid
    for pid in "$@"; do
        [[ $(ps -o stat= -p "$pid") =~ ^(Z.*)?$ ]] || return 0
    done
    return 1
}

RANDOM=${LM_KILL_SEED:-4711}
kills=0
mkdir run
while true; do
    mpirun -n 4 lm-train "${args[@]}" --save run --load run >log 2>err </dev/null &
    launcher=$!
    if [ $kills -lt "$n_kills" ]; then
        until [ "$(ranks_of $launcher | wc -l)" -ge 4 ] || ! kill -0 $launcher 2>/dev/null; do sleep 0.05; done
        sleep "$(awk -v r="$RANDOM" 'BEGIN { printf "%.3f", 3 * r / 32768 }')"
        mapfile -t ranks < <(ranks_of $launcher)
        if [ ${#ranks[@]} -gt 0 ] && kill -9 "${ranks[$((RANDOM % ${#ranks[@]}))]}" 2>/dev/null; then
            kills=$((kills + 1))
            for _ in $(seq 600); do
                alive $launcher "${ranks[@]}" || break
                sleep 0.1
            done
            ! alive $launcher "${ranks[@]}" || fail "the job runs on a minute after the death of a rank"
            code=0
            wait $launcher || code=$?
            [ $code != 0 ] || [ "$(head -n1 run/latest 2>/dev/null)" = "$last" ] || fail "exit 0 after the death of a rank"
            continue
        fi
    fi
    wait $launcher || fail "exit $?: $(cat err)"
    break
done
for file in "whole/$last"/*.safetensors; do
    cmp "$file" "run/$last/${file##*/}" || fail "other bits after $kills kills"
done
[ -z "$(find run -name '*.tmp*')" ] || fail "left behind: $(find run -name '*.tmp*')"
lm-ckpt verify run >verified || fail "lm-ckpt verify: $(cat verified)"
echo "$kills kills of a rank, the same bits"
