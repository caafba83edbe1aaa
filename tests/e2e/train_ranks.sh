#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-train under mpirun: layouts give the losses of one rank, a stop saves on all
# ranks, resuming gives the same bits in the same layout and the same losses in any other, and an error
# of one rank ends all ranks with one clear line.
# labels: e2e;mpi
# timeout: 600
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

make_corpus corpus.jsonl 300
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 1
    --global-batch-size 8 --train-iters 20 --lr 3e-3 --min-lr 1e-4 --lr-decay-style cosine --lr-warmup-iters 5
    --eval-interval 10 --eval-iters 2 --log-interval 1 --data-path data_text_document --threads 1)
ranks() {
    local n=$1
    shift
    mpirun -n "$n" lm-train "${args[@]}" "$@"
}

# Compares the losses, validation losses and gradient norms of two logs. A relative difference of 1e-3 is allowed.
figures() { grep -oE '(lm loss|lm loss value|grad norm): [^ ]+' "$1" | sed 's/.*: //'; }
same_figures() {
    [ "$(figures "$1" | wc -l)" = "$(figures "$2" | wc -l)" ] || fail "$1 and $2 have other lines"
    paste <(figures "$1") <(figures "$2") |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3 * $1) { print; exit 1 } }' || fail "$1 and $2 differ"
}
# Compares every file of tensors of two checkpoints byte by byte.
same_tensors() {
    local file
    for file in "$1"/*.safetensors; do
        cmp "$file" "$2/${file##*/}" || fail "$1 and $2 differ"
    done
}

run one.log lm-train "${args[@]}"
tp2pp2=(--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2)
tp2dp2=(--tensor-model-parallel-size 2 --use-distributed-optimizer --overlap-grad-reduce
    --overlap-param-gather --ddp-bucket-size 5000 --check-replicas 5)
run tp2pp2.log ranks 4 "${tp2pp2[@]}"
same_figures one.log tp2pp2.log
run whole.log ranks 4 "${tp2dp2[@]}" --save whole
same_figures one.log whole.log
lm-ckpt verify whole >verified || fail "lm-ckpt verify: $(cat verified)"

# Separate documents and sequences that grow.
apart=(--reset-position-ids --reset-attention-mask --eod-mask-loss --curriculum-learning-type seqlen
    --curriculum-schedule fixed_linear --curriculum-min-difficulty 16 --curriculum-max-difficulty 48
    --curriculum-total-steps 10 --curriculum-difficulty-step 8)
run apart.log lm-train "${args[@]}" "${apart[@]}"
run tp2pp2.log ranks 4 "${apart[@]}" "${tp2pp2[@]}"
same_figures apart.log tp2pp2.log
run tp2dp2.log ranks 4 "${apart[@]}" "${tp2dp2[@]}"
same_figures apart.log tp2dp2.log
# Positions that restart reach every stage with RoPE, and distances every stage with ALiBi.
llama=(--position-embedding-type rope --normalization RMSNorm --swiglu --untie-embeddings-and-output-weights
    --disable-bias-linear --group-query-attention --num-query-groups 2)
for architecture in "${llama[*]}" "--position-embedding-type alibi --embed-layernorm"; do
    read -ra kind <<<"$architecture"
    run apart.log lm-train "${args[@]}" "${kind[@]}" "${apart[@]}"
    run tp2pp2.log ranks 4 "${kind[@]}" "${apart[@]}" "${tp2pp2[@]}" --num-layers-per-virtual-pipeline-stage 1
    same_figures apart.log tp2pp2.log
done

# SIGUSR1 to mpirun reaches every rank: they save after the same iteration and exit with 75.
code=0
mpirun -n 4 lm-train "${args[@]}" --train-iters 2000 "${tp2dp2[@]}" --save signalled >signalled.log 2>signalled.err &
launcher=$!
until [ -s signalled.log ]; do
    kill -0 $launcher || fail "no start: $(cat signalled.err)"
    sleep 0.1
done
kill -USR1 $launcher
wait $launcher || code=$?
[ $code = 75 ] || fail "SIGUSR1: exit $code: $(cat signalled.err)"
grep -q "$stopped" signalled.err || fail "SIGUSR1: $(cat signalled.err)"
lm-ckpt verify signalled >verified || fail "lm-ckpt verify: $(cat verified)"

# Stopped and resumed: the same bits; resumed in other layouts: the same losses.
code=0
ranks 4 "${tp2dp2[@]}" --save parts --exit-interval 10 >first.log 2>first.err || code=$?
[ $code = 75 ] || fail "--exit-interval: exit $code: $(cat first.err)"
run second.log ranks 4 "${tp2dp2[@]}" --save parts --load parts
diff <(figures whole.log) <(cat <(figures first.log) <(figures second.log)) >differ || fail "the resumed run is another one: $(head differ)"
same_tensors whole/global_step20 parts/global_step20
run other.log ranks 2 --pipeline-model-parallel-size 2 --load parts/global_step10
same_figures second.log other.log
run alone.log lm-train "${args[@]}" --load parts/global_step10
same_figures second.log alone.log

# Corrupt bytes that only one rank reads: all ranks load the previous step.
run cut.log ranks 4 "${tp2dp2[@]}" --load parts/global_step10 --save cut --save-interval 2 --exit-iteration 14
file=cut/global_step14/optim-00000.safetensors
flip $file
expect 0 "warning: .*$file: .*checksum.* cut/global_step12 " \
    ranks 4 "${tp2dp2[@]}" --load cut --exit-iteration 13
grep -q "$resumed 12" err || fail "no fall-back: $(cat err)"

# One clear line, printed once, and its exit code.
reported_once() { [ "$(grep -c "^lm-train: .*$1" err)" = 1 ] || fail "'$1' not reported once: $(cat err)"; }
expect 2 "--tensor-model-parallel-size: .* 2 tensor x 1 pipeline ranks, .* 3 ranks" ranks 3 --tensor-model-parallel-size 2
expect 2 "--global-batch-size: 7 " ranks 2 --global-batch-size 7
reported_once "--global-batch-size: "
expect 2 "--zero-stage: 2 " ranks 2 --zero-stage 2
expect 2 " nothing_there: " ranks 2 --data-path nothing_there
reported_once "nothing_there: "
expect 4 "iteration [0-9]+: loss " ranks 2 --lr 1e30 --clip-grad 0
reported_once "iteration [0-9]*: loss "
# A checkpoint that one rank cannot write, at its third operation: the other ranks fail too, the previous checkpoint
# stays, and nothing of the new one remains.
mkdir full
args+=(--train-iters 8)
expect 75 "" ranks 2 --save full --exit-interval 4
again=(lm-train "${args[@]}" --save full --load full)
expect 3 "^lm-train: full/global_step8: NOT SAVED: rank 1 on .*: full/global_step8/" mpirun -n 1 "${again[@]}" --save-retry 0 : \
    -n 1 -x LM_IO_FAULT=fail:3 "${again[@]}" --save-retry 0
[ -z "$(find full -name '*.tmp*')" ] || fail "left behind: $(find full -name '*.tmp*')"
[ "$(head -n1 full/latest)" = global_step4 ] || fail "latest is $(head -n1 full/latest)"
run last.log ranks 2 --save full --load full
echo "4 ranks train, stop, save and resume as one does"
