#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The arguments of published trainings (tests/e2e/published) train: 20 iterations under mpirun, stopped after 12 and
# resumed, with the losses of a run that is not stopped. Layers, widths, heads, sequence, batch, vocabulary and the sizes
# of the layout are reduced; every other flag is as published.
# labels: e2e;mpi;proof
# timeout: 1800
here=$(dirname "$(realpath "$0")")
share=$here/../../share
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

make_corpus corpus.jsonl 1000
lm-preprocess --input corpus.jsonl --output-prefix corpus --append-eod --quiet
echo '"train: 0.3 0:0.950 corpus_text_document, 0.7 0:0.950 corpus_text_document"' >train-splits.txt
echo '"all: 1 0.950:1.0 corpus_text_document" "first: 1 0.950:0.975 corpus_text_document"' >valid-splits.txt
mkdir tokenizer
awk '{ sub(/}[[:space:]]*$/, ""); vocab = vocab $0 } END {
    printf "{\"version\": \"1.0\", \"added_tokens\": [], \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false},"
    printf "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"merges\": [\"Ġ t\"], \"vocab\": %s}}}\n", vocab
}' "$share/tokenizers/gpt2/vocab.json" >tokenizer/tokenizer.json

# arguments NAME DIRECTORY: prints the published arguments, one flag a line, with the paths of this run.
arguments() {
    grep '^-' "$here/published/$1.args" | sed -e "s|@GPT2@|$share/tokenizers/gpt2|; s|@DIR@|$work/$2|; s|@DATA@|$work/corpus_text_document|" \
        -e "s|@HERE@|$work|; s|@TOKENIZER@|$work/tokenizer|"
}
# reduced DIRECTORY NAME KEY=VALUE...: prints the arguments as words, with the given values of these flags.
reduced() {
    local lines flag
    lines=$(arguments "$2" "$1")
    for flag in "${@:3}"; do
        grep -q -- "^--${flag%%=*} " <<<"$lines" || fail "$2 has no --${flag%%=*}"
        # shellcheck disable=SC2001
        lines=$(sed "s|^--${flag%%=*} .*|--${flag%%=*} ${flag#*=}|" <<<"$lines")
    done
    tr '\n' ' ' <<<"$lines"
}
losses() { sed -nE 's/^ iteration +([0-9]+)\/.*(lm loss: [^|]*).*(grad norm: [^|]*).*/\1 \2 \3/p' "$1"; }
# start DIRECTORY RANKS ARGUMENTS CODE MORE...: runs in that directory, appends to its log.
start() {
    local directory=$1 ranks=$2 arguments=$3 wanted=$4 code=0
    shift 4
    # shellcheck disable=SC2086
    mpirun -n "$ranks" lm-train $arguments --threads 1 "$@" >>"$directory/log" 2>"$directory/err" </dev/null || code=$?
    [ $code = "$wanted" ] || fail "$directory: exit $code, wanted $wanted: $(cat "$directory/err")"
}

# trains NAME RANKS KEY=VALUE...: trains whole, and stopped and resumed.
trains() {
    local name=$1 ranks=$2 saves=()
    shift 2
    mkdir whole part
    cp train-splits.txt valid-splits.txt whole
    cp train-splits.txt valid-splits.txt part
    [ ! -e "$here/published/$name.json" ] || reduce_deepspeed "$name"
    grep -q -- '^--save ' "$here/published/$name.args" || saves=(--save part/checkpoints --load part/checkpoints)
    start whole "$ranks" "$(reduced whole "$name" "$@")" 0 --exit-iteration 20
    start part "$ranks" "$(reduced part "$name" "$@")" 75 --exit-interval 12 "${saves[@]}"
    start part "$ranks" "$(reduced part "$name" "$@")" 0 --exit-iteration 20 "${saves[@]}"
    losses whole/log >whole.losses
    losses part/log >part.losses
    [ -s whole.losses ] || fail "$name: no losses: $(cat whole/log)"
    diff whole.losses part.losses || fail "$name: the resumed run differs"
    [ "$(tail -n1 whole.losses | cut -d' ' -f1)" = 20 ] || fail "$name: $(tail -n3 whole.losses)"
    if [ "$name" = tr1-13B ]; then
        [ "$(wc -l <part/codecarbon/emissions-000.csv)" = 3 ] || fail "energy: $(cat part/codecarbon/*)"
    fi
    echo "$name: 20 iterations on $ranks ranks, stopped after 12: $(tail -n1 part.losses)"
    rm -rf whole part
}
# The batch sizes of the configuration have to agree with the flags.
reduce_deepspeed() {
    sed -E "s/(\"train_batch_size\": )[0-9]+/\1$batch/; s/(\"max_difficulty\": )[0-9]+/\1$sequence/;
        s/(\"min_difficulty\": )[0-9]+/\116/" "$here/published/$1.json" >"$1.json"
}

sequence=48
small=(num-layers=4 hidden-size=64 num-attention-heads=4 "seq-length=$sequence" "max-position-embeddings=$sequence")
batch=16
trains tr1-13B 8 "${small[@]}" ffn-hidden-size=256 pipeline-model-parallel-size=2 \
    global-batch-size=$batch "rampup-batch-size=4 4 100" log-interval=1
trains tr8-104B 8 "${small[@]}" tensor-model-parallel-size=2 pipeline-model-parallel-size=2 \
    global-batch-size=$batch "rampup-batch-size=4 4 100"
trains tr8b-104B-cl 4 "${small[@]}" tensor-model-parallel-size=2 pipeline-model-parallel-size=2 global-batch-size=$batch
trains tr11-176B-ml 8 "${small[@]}" tensor-model-parallel-size=2 pipeline-model-parallel-size=2 \
    global-batch-size=$batch "rampup-batch-size=8 4 100" pad-vocab-size-to=50304
trains aws-7.5B 8 "${small[@]}" tensor-model-parallel-size=2 global-batch-size=$batch
