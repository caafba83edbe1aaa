#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# share/slurm/train.sbatch in a real Slurm: eight ranks on two nodes. A stopped job saves and exits with 75; the same
# script submitted again resumes, and the run ends with the bits of an uninterrupted run.
# labels: mpi;long
# timeout: 400
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"
# shellcheck source=tests/e2e/slurm_box.bash
. "$here/slurm_box.bash"

start_slurm 2 4
make_corpus corpus.jsonl 200
lm-preprocess --input corpus.jsonl --output-prefix data --tokenizer-type ByteTokenizer --append-eod --quiet
args=(--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 48 --micro-batch-size 1 --global-batch-size 8
    --train-iters 80 --lr 1e-3 --data-path data_text_document --split 100 --eval-iters 0 --threads 1 --log-interval 1)
submit() { # RUN FLAGS...: prints the number of the job
    local run=$1
    shift
    FRESH=${FRESH:-0} RUN_DIRECTORY=$PWD/$run sbatch --parsable --cpus-per-task=1 --output="$PWD/%j.log" "$here/../../share/slurm/train.sbatch" "$@"
}
state() { scontrol show job "$1" | sed -n 's/.*JobState=\([A-Z]*\).*/\1/p'; }
exit_code() { scontrol show job "$1" | sed -n 's/.* ExitCode=\([0-9]*\):.*/\1/p'; }
ended() { [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL)$ ]]; }
finish() { # JOB WANTED: the job ends with this exit code
    until ended "$1"; do sleep 0.2; done
    [ "$(exit_code "$1")" = "$2" ] || fail "job $1: exit $(exit_code "$1"), wanted $2: $(cat "$1.log")"
}

whole=$(FRESH=1 submit whole "${args[@]}")
finish "$whole" 0
grep -q '^finished$' "$whole.log" || fail "the whole run: $(tail -n 3 "$whole.log")"

first=$(FRESH=1 submit run "${args[@]}")
until grep -qs 'iteration  *10/' run/log; do
    ! ended "$first" || fail "job $first: $(cat "$first.log")"
    sleep 0.1
done
scancel --batch --signal=USR1 "$first"
finish "$first" 75
grep -q '^saved, work remains$' "$first.log" || fail "the stopped run: $(tail -n 3 "$first.log")"
stopped=$(head -n1 run/latest)
[ "$stopped" != "$(head -n1 whole/latest)" ] || fail "the stop came after the last step"

second=$(submit run "${args[@]}")
finish "$second" 0
last=$(head -n1 whole/latest)
[ "$(head -n1 run/latest)" = "$last" ] || fail "ends at $(head -n1 run/latest), not $last"
for file in "whole/$last"/*.safetensors; do
    cmp "$file" "run/$last/${file##*/}" || fail "${file##*/} differs"
done
echo "train.sbatch on 2 nodes, 8 ranks: stopped at $stopped, resumed to $last"
