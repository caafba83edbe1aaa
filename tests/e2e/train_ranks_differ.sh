#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks with another flag, environment, program or data file than the others end the start with exit code 2 and one line that
# names the rank, its host and what differs. Without this comparison they hang, or train together unnoticed.
# labels: e2e;mpi
# timeout: 120
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

make_corpus corpus.jsonl 40
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
same=(lm-train --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --micro-batch-size 1 --global-batch-size 6
    --train-iters 4 --lr 1e-3 --threads 1 --eval-iters 0 --no-node-check)
data=(--data-path data_text_document)
# differ N PATTERN RANK_0... : OTHERS...: starts rank 0 on host a and two ranks on host b, and expects N lines of an error.
differ() {
    local n=$1 pattern=$2 first=()
    shift 2
    while [ "$1" != : ]; do first+=("$1"); shift; done
    expect 2 "^lm-train: $pattern" timeout 60 mpirun -n 1 -x LM_HOST=a "${first[@]}" : -n 2 -x LM_HOST=b "${@:2}"
    [ "$(grep -c '^lm-train: [^n]' err)" = "$n" ] || fail "not $n differences: $(cat err)"
}

# Rank 0 is named first, because most ranks differ from it.
for flag in "--seed 7" "--train-iters 3" "--hidden-size 33" "--log-interval 1" --bf16 "--tensor-model-parallel-size 3" --dry-run; do
    read -ra words <<<"$flag"
    differ 1 "${words[0]}: is .* on rank 0 on a, .* on rank 1 on b .2 of 3" "${same[@]}" "${data[@]}" "${words[@]}" : \
        "${same[@]}" "${data[@]}"
done
differ 1 '--save-interval: is 2 on rank 0 on a' "${same[@]}" "${data[@]}" --save s --save-interval 2 : \
    "${same[@]}" "${data[@]}" --save s --save-interval 3
[ ! -e s ] || fail "a refused start wrote its directory"
expect 2 '^lm-train: --lr: is 0.002 on rank 2 on b, .*0.001 on rank 0 on a .1 of 3' timeout 60 mpirun \
    -n 2 -x LM_HOST=a "${same[@]}" "${data[@]}" : -n 1 -x LM_HOST=b "${same[@]}" "${data[@]}" --lr 2e-3

# Flags that name places of a host may differ, and the data is compared by its content.
mkdir here there
cp data_text_document.* here
run same.log mpirun -n 1 "${same[@]}" "${data[@]}" --log-file one.log : \
    -n 1 "${same[@]}" --data-path here/data_text_document --threads 2 --quiet
cp data_text_document.* there
moved=("${same[@]}" --tokenizer-type ByteTokenizer --data-path there/data_text_document)
flip there/data_text_document.bin 1
differ 1 '--data-path: .*there/data_text_document .*rank 1 on b' "${same[@]}" --tokenizer-type ByteTokenizer "${data[@]}" : \
    "${moved[@]}"
cp data_text_document.bin there
rm there/data_text_document.json
differ 1 '--data-path: .*there/data_text_document .*no metadata' "${same[@]}" --tokenizer-type ByteTokenizer "${data[@]}" : \
    "${moved[@]}"
rm there/data_text_document.idx
differ 1 'rank 1 on b: there/data_text_document: no such dataset' "${same[@]}" --tokenizer-type ByteTokenizer "${data[@]}" : \
    "${moved[@]}"
# A file that a flag names is compared by what it sets.
echo '{"train_batch_size": 6, "gradient_clipping": 0.5}' >here/ds.json
echo '{"train_batch_size": 6, "gradient_clipping": 1.0}' >there/ds.json
differ 1 '--clip-grad: is 0.5 on rank 0 on a' "${same[@]}" "${data[@]}" --deepspeed_config here/ds.json : \
    "${same[@]}" "${data[@]}" --deepspeed_config there/ds.json
# Environment and program.
differ 1 'LM_PROCESSOR: is portable on rank 0 on a' env LM_PROCESSOR=portable "${same[@]}" "${data[@]}" : \
    "${same[@]}" "${data[@]}"
mkdir other
cp -r "$bin" "$bin/../lib" other
version=$(lm-train --version | sed -nE 's/.* ([0-9]+\.[0-9]+\.[0-9]+[^ ]*).*/\1/p' | head -n 1)
grep -l -r --binary-files=text -F "$version" other | while read -r file; do
    sed -i "s/${version//./\\.}/9${version#?}/g" "$file"
done
like=${version//+/.}
differ 1 "version: is 9${like#?} on rank 0 on a, but $like on rank 1 on b" "other/bin/${same[0]}" "${same[@]:1}" "${data[@]}" : \
    "${same[@]}" "${data[@]}"
