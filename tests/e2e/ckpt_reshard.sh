#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# lm-ckpt reshard: a run that resumes from the files of another layout equals the run, bit for bit.
# labels: e2e;mpi
# timeout: 300
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

args=(--mock-data --num-layers 2 --hidden-size 32 --num-attention-heads 2 --seq-length 24 --vocab-size 300
    --micro-batch-size 1 --global-batch-size 4 --train-iters 6 --lr 1e-3 --threads 1 --eval-iters 0 --log-interval 6 --bf16)
lm-train "${args[@]}" --save c --save-interval 3 >/dev/null 2>&1
reshard() {
    expect 0 '' lm-ckpt reshard "$1" "$2" --tensor-model-parallel-size "$3" --pipeline-model-parallel-size "$4"
}

reshard c/global_step3 cut 2 2
grep -Eq '^cut/global_step3: tp2 pp2, [0-9.]+ KiB$' out || fail "reshard: $(cat out)"
[ "$(find cut -name '*.safetensors' | wc -l)" = 8 ] || fail "reshard: $(ls cut/*)"
expect 0 '' lm-ckpt verify cut --quiet
expect 0 '' lm-ckpt diff c/global_step3 cut
expect 0 '' lm-ckpt show cut --json
jq -S '[.counters, .state, .seed, .model, .tokenizer, .command_line]' out >of_cut
expect 0 '' lm-ckpt show c/global_step3 --json
jq -S '[.counters, .state, .seed, .model, .tokenizer, .command_line]' out >of_c
cmp of_c of_cut || fail "the manifests differ"
# Two reshards in opposite directions give the same files.
reshard cut back 1 1
for file in c/global_step3/*; do
    [ "$(basename "$file")" = manifest.json ] || cmp "$file" "back/global_step3/$(basename "$file")" || fail "back"
done

run again.log lm-train "${args[@]}" --load cut --save again
expect 0 '' lm-ckpt diff c/global_step6 again
grep -q '^equal: ' out || fail "diff: $(cat out)"

# Usage errors; nothing of OUT remains.
expect 2 '--tensor-model-parallel-size: 3 .*--num-attention-heads 2' lm-ckpt reshard c gone --tensor-model-parallel-size 3
expect 2 '--pipeline-model-parallel-size: 3 .*--num-layers 2' lm-ckpt reshard c gone --pipeline-model-parallel-size 3
expect 2 '--tensor-model-parallel-size: .*1, got 0' lm-ckpt reshard c gone --tensor-model-parallel-size 0
expect 2 ' cut: ' lm-ckpt reshard c cut
expect 2 ' c: ' lm-ckpt reshard c/global_step3 c --force
expect 3 ' gone/[^:]*: ' env LM_IO_FAULT=short:4 lm-ckpt reshard c gone --tensor-model-parallel-size 2
nothing_under gone

# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
two=("${args[@]}" --tensor-model-parallel-size 2)
run from_c.log mpirun -n 2 lm-train "${two[@]}" --load c/global_step3 --save from_c
run from_cut.log mpirun -n 2 lm-train "${two[@]}" --load cut --save from_cut
expect 0 '' lm-ckpt diff from_c from_cut
grep -q '^equal: ' out || fail "diff: $(cat out)"
reshard from_cut one 1 1
expect 0 '' lm-ckpt diff from_c one
echo "lm-ckpt reshard: all as promised"
