#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Makes a trained model from text on this machine, in a few minutes. Prints every command before it runs.
set -euo pipefail

usage() {
    cat <<'END'
Usage: ./demo.sh [--dir DIR] [--seconds N] [--bin DIR] [CORPUS.jsonl]
Builds the tools, converts a corpus to tokens, trains a small GPT-2 on the CPU, stops half-way, resumes,
verifies the checkpoint, converts the model and prints text that it writes. A corpus is JSON Lines with a
"text" in each line. The default corpus is an English manual (7 MB) from a Debian package.
  --dir DIR    output directory; its contents are replaced [demo-run]
  --seconds N  approximate time of the training [120]
  --bin DIR    directory of the tools, instead of building them
END
}

root=$(cd "$(dirname "$0")" && pwd)
dir=$root/demo-run
seconds=120
bin=
corpus=
while [ $# -gt 0 ]; do
    case $1 in
        --dir)
            dir=${2:?--dir needs a directory}
            shift
            ;;
        --seconds)
            seconds=${2:?--seconds needs a number}
            shift
            ;;
        --bin)
            bin=$(realpath "${2:?--bin needs a directory}")
            shift
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        -*)
            echo "demo.sh: unknown option $1" >&2
            usage >&2
            exit 2
            ;;
        *) corpus=$(realpath "$1") ;;
    esac
    shift
done

# part TITLE: records the time of the previous part of the demo, and begins a new part.
times=
title=
begin=0
part() {
    if [ -n "$title" ]; then
        times+=$(printf '%5d s  %s' $((SECONDS - begin)) "$title")$'\n'
        printf '(%d s)\n' $((SECONDS - begin))
    fi
    title=${1%% (*}
    begin=$SECONDS
    printf '\n== %s\n' "$1"
}
print_command() {
    local word
    printf '$'
    for word in "$@"; do
        if [[ $word =~ ^[A-Za-z0-9_./,:=+-]+$ ]]; then printf ' %s' "$word"; else printf ' %q' "$word"; fi
    done
    printf '\n'
}
show() {
    print_command "$@"
    "$@"
}
fail() {
    echo "demo.sh: $*" >&2
    exit 1
}

if [ -z "$bin" ]; then
    part "Building the tools (7 to 10 minutes on two cores, only once)"
    cd "$root"
    tools/install-deps
    mkdir -p build
    cmake --preset release >build/release.log || fail "cmake failed, see build/release.log"
    : >build/build.log
    echo "progress: tail -f $root/build/build.log"
    cmake --build build/release -j "$(nproc)" --target programs >build/build.log ||
        fail "the build failed, see build/build.log"
    bin=$root/build/release/bin
fi
export PATH=$bin:$PATH

mkdir -p "$dir"
cd "$dir"
rm -rf checkpoints start hf train.log corpus_text_document.*
if [ -z "$corpus" ]; then
    part "A corpus: the manual of PostgreSQL, from its Debian package (a few seconds)"
    corpus=$dir/corpus.jsonl
    [ -s corpus.jsonl ] || show "$root/tools/make-corpus" corpus.jsonl
fi
[ -r "$corpus" ] || fail "cannot read $corpus"

part "Text to tokens (seconds)"
show lm-preprocess --input "$corpus" --output-prefix corpus --append-eod --workers "$(nproc)"

threads=$(nproc)
model=(--num-layers 4 --hidden-size 256 --num-attention-heads 8 --seq-length 256 --max-position-embeddings 256
    --attention-dropout 0 --hidden-dropout 0)
data=(--data-path corpus_text_document --split '98,2,0')
batch=(--micro-batch-size 4 --global-batch-size 4)
recipe=(--lr 2e-3 --min-lr 2e-4 --lr-decay-style cosine --lr-warmup-fraction 0.05 --weight-decay 0.1
    --adam-beta2 0.95 --clip-grad 1.0)
common=("${model[@]}" "${data[@]}" "${batch[@]}" "${recipe[@]}" --device cpu --threads "$threads")

part "How fast is this machine? (half a minute)"
show lm-train "${common[@]}" --train-iters 8 --log-interval 1 --eval-interval 1000 --eval-iters 0 | tee speed.log
samples_per_second=$(sed -n 's/.*samples per second: *\([0-9.]*\).*/\1/p' speed.log | sort -n | tail -n 4 | head -n 1)
# One step at a learning rate of almost 0 saves the model as it is before training.
lm-train "${common[@]}" --train-iters 1 --lr 1e-9 --min-lr 0 --lr-warmup-fraction 0 --log-interval 1 --eval-iters 0 \
    --save start >start.log 2>&1 || fail "lm-train failed, see $dir/start.log"
iterations=$(awk -v r="$samples_per_second" -v s="$seconds" 'BEGIN { n = int(s * r / 4 / 10) * 10; print n < 160 ? 160 : n }')
half=$((iterations / 2))

run=(lm-train "${common[@]}" --train-iters "$iterations" --log-interval 10 --eval-interval "$half" --eval-iters 10
    --save checkpoints --log-file train.log)

part "Training, $iterations iterations (about $(awk -v n="$half" -v r="$samples_per_second" 'BEGIN { printf "%.0f", n * 4 / r }') s until a SIGUSR1 stops it half-way, as a batch system would before the time limit)"
print_command "${run[@]}"
"${run[@]}" &
trainer=$!
trap 'kill $trainer 2>/dev/null || true' EXIT
until [ -n "$(sed -n "s/.* iteration  *\([0-9]*\)\/.*/\1/p" train.log 2>/dev/null | awk -v h="$half" '$1 + 0 >= h + 0')" ]; do
    kill -0 $trainer 2>/dev/null || break
    sleep 0.2
done
kill -USR1 $trainer 2>/dev/null || true
status=0
wait $trainer || status=$?
[ $status = 75 ] || fail "lm-train ended with $status instead of 75 (saved, run again)"
echo "lm-train ended with 75: saved, run again"

part "The same command with --load resumes (the other half)"
show "${run[@]}" --load checkpoints

part "The checkpoints, and a check of every byte (seconds)"
show lm-ckpt ls checkpoints
show lm-ckpt verify checkpoints

part "Conversion for Hugging Face (seconds)"
show lm-convert checkpoints hf --to hf-gpt2 --check

part "What the model writes, before and after the training (half a minute)"
documents=$(lm-preprocess info corpus_text_document --json | sed -n 's/.*"documents": *\([0-9]*\).*/\1/p')
unseen=$((documents * 2 / 100))
[ "$unseen" -ge 1 ] || unseen=1
[ "$unseen" -le 4 ] || unseen=4
unseen_documents=(lm-preprocess cat corpus_text_document --documents $((documents - unseen))-$((documents - 1)))
print_command "${unseen_documents[@]}"
"${unseen_documents[@]}" >unseen.jsonl
sampling=(--max-new-tokens 40 --temperature 0.8 --top-p 0.9 --quiet)
print_command lm-ckpt generate checkpoints --prompt 'The first' "${sampling[@]}"
for prompt in 'The first' 'If you want to' 'It is possible'; do
    for step in start checkpoints; do
        printf '%s  %s' "$([ $step = start ] && echo 'before:' || echo 'after: ')" "$prompt"
        lm-ckpt generate "$step" --prompt "$prompt" "${sampling[@]}" | tr -s '\n' ' '
        echo
    done
done
show lm-ckpt score start checkpoints unseen.jsonl --totals --quiet | tee scores.jsonl

loss_at() { sed -n 's/^.* iteration .*lm loss: *\([0-9.E+-]*\).*/\1/p' "$1" | "$2" -n 1; }
validation=$(sed -n 's/.*validation loss at iteration.*lm loss value: *\([0-9.E+-]*\).*/\1/p' train.log | tail -n 1)
rate=$(sed -n 's/.*samples per second: *\([0-9.]*\).*/\1/p' train.log | sort -n |
    awk '{ r[NR] = $1 } END { printf "%.0f", 256 * r[int((NR + 1) / 2)] }')
entropy=$(python3 - corpus_text_document.bin <<'END'
import array, collections, math, sys
ids = array.array("H", open(sys.argv[1], "rb").read())
print(f"{-sum(n / len(ids) * math.log(n / len(ids)) for n in collections.Counter(ids).values()):.3f}")
END
)
longer=${run[*]}
longer=${longer/--train-iters $iterations/--train-iters $((2 * iterations))}
times+=$(printf '%5d s  %s' $((SECONDS - begin)) "$title")
printf '(%d s)\n' $((SECONDS - begin))
cat <<END

== Done in $SECONDS s
$times

Made in $dir:
  corpus_text_document.bin, .idx   the corpus as tokens, in Megatron-LM's format
  checkpoints/                     the state of the training at its last steps
  hf/                              the model for Hugging Face: AutoModelForCausalLM.from_pretrained("$dir/hf")
  train.log                        the training log
  start/                           the model before the training

Speed: $rate tokens per second with $threads threads.
Loss (nats per token):
  at the start               $(loss_at speed.log head | awk '{ printf "%.3f", $1 }')
  at the end                 $(loss_at train.log tail | awk '{ printf "%.3f", $1 }')
  at the end, unseen text    $(awk -v v="$validation" 'BEGIN { printf "%.3f", v }')
  entropy of the tokens      $entropy   (the loss of a model that knows only the frequency of each token)
Bits per byte of $unseen unseen documents:
  before the training        $(sed -n 's/.*"bits_per_byte":\([0-9.]*\).*/\1/p' scores.jsonl | awk 'NR == 1 { printf "%.3f", $1 }')
  after the training         $(sed -n 's/.*"bits_per_byte":\([0-9.]*\).*/\1/p' scores.jsonl | awk 'NR == 2 { printf "%.3f", $1 }')

Try next, in $dir with $bin in PATH:
  lm-ckpt show checkpoints --tensors
  lm-estimate params ${model[*]}
  $longer --load checkpoints --override-opt_param-scheduler
END
