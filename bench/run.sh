#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares lm-utils with other programs in the same run on the same machine: Markdown tables on stdout.
# bench/run.sh [train|save|precision|tokenize]; needs an idle machine, and ./check.sh --all once.
# Environment, with defaults in brackets:
#   THREADS [2]        tokenize ignores it, and runs with one thread and with two
#   ROUNDS [2], BIN [build/release/bin]
#   CORPUS [the demo's corpus]   for tokenize: JSON Lines; colons separate several files
#   PYTHON [.venv/bin/python]    the default has Debian's PyTorch, whose fp32 products are as slow as the installed BLAS; for a fair
#                      comparison use a Python with `pip install torch transformers`. tokenize skips packages that it lacks; for all
#                      of them: python3 -m venv peers && peers/bin/pip install gigatoken tiktoken tokenizers
#   FIGURES [none]     file to which each figure of the tables is appended as a JSON line (bench/figures.py)
set -euo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
threads=${THREADS:-2}
rounds=${ROUNDS:-2}
bin=${BIN:-build/release/bin}
python=${PYTHON:-.venv/bin/python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

train_ours() {
    "$bin/lm-train" --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 256 \
        --max-position-embeddings 256 --vocab-size 50304 --attention-dropout 0 --hidden-dropout 0 \
        --mock-data --micro-batch-size 4 --global-batch-size 4 --train-iters 10 --log-interval 1 --lr 1e-4 \
        --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0 --device cpu --threads "$threads" --benchmark >"$work/ours.log" 2>&1 ||
        { cat "$work/ours.log" >&2; return 1; }
    sed -n 's/^benchmark: *\([0-9.]*\) tokens.*/{"tool": "lm-train", "tokens_per_s": \1}/p' "$work/ours.log"
}

record() { # CAPTION UNIT KEY: appends the lines of JSON on stdin to $FIGURES and copies them to stdout
    if [ -n "${FIGURES:-}" ]; then bench/figures.py "$FIGURES" "$@"; else cat; fi
}

table() { # CAPTION COLUMN KEY: the lines of JSON on stdin as a table, best of each tool
    echo
    echo "$1 ($(date -u +%F), $(nproc) x $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(git describe --always --dirty)):"
    echo
    echo "| tool | $2 |"
    echo "|---|---|"
    record "$@" | jq -rs --arg key "$3" 'group_by(.tool) | map(max_by(.[$key])) | sort_by(.[$key]) | .[] | "| \(.tool) | \(.[$key]) |"'
}

if [ "$what" = all ] || [ "$what" = train ]; then
    for _ in $(seq "$rounds"); do
        train_ours
        "$python" bench/train_pytorch.py --threads "$threads"
        GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=4294967296 \
            "$python" bench/train_pytorch.py --threads "$threads" | jq -c '.tool += ", malloc tuned"'
    done >"$work/train.json"
    table "Training, GPT-2 124M shape, fp32, B=4 T=256, $threads threads, best of $rounds medians" "tokens/s" tokens_per_s \
        <"$work/train.json"
    echo
    echo "The operations of a step of lm-train (the last round):"
    echo
    sed -n '/^benchmark:/,$p' "$work/ours.log" | sed 's/^/    /'
fi

# The cost of a save in the background: compares the steps of an interval that begins with a save with those of an interval
# without a save, in the same run. STEPS is the length of an interval (50).
if [ "$what" = all ] || [ "$what" = save ]; then
    steps=${STEPS:-50}
    "$bin/lm-train" --model gpt2-124m --seq-length 256 --max-position-embeddings 256 --mock-data --micro-batch-size 4 \
        --train-iters $((2 * steps)) --lr 1e-4 --eval-iters 0 --device cpu --threads "$threads" --log-interval 1 \
        --save "$work/saved" --save-interval "$steps" --exit-iteration $((2 * steps)) --log-json "$work/save.json" \
        >"$work/save.log" 2>&1 || { cat "$work/save.log" >&2; exit 1; }
    echo
    jq -rs --argjson n "$steps" 'def total(a; b): map(select(.kind == "step" and .iteration > a and .iteration <= b).step_s) | add;
        (map(select(.kind == "save" and .iteration == $n))[0]) as $save |
        total(1; $n) as $without | (total($n; 2 * $n - 1) + $save.blocked_s) as $with |
        "A save of \($save.bytes) bytes in \($save.elapsed_s) s, loop blocked \($save.blocked_s) s: the \($n - 1) steps after it take \($with) s, those before it \($without) s: \(100 * ($with / $without - 1)) % more."' "$work/save.json"
fi

# Tokens per second of CPU time, which also a shared machine measures well. The CPU time of 2 iterations is subtracted from that
# of 8. With THREADS=1, the time does not include waiting for a second core.
shape=(--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 256 --vocab-size 8192)
cpu_seconds() { # ITERATIONS FLAGS...
    local n=$1
    shift
    (
        "$bin/lm-train" "${shape[@]}" --attention-dropout 0 --hidden-dropout 0 --mock-data --micro-batch-size 4 \
            --global-batch-size 4 --train-iters "$n" --lr 1e-4 --device cpu --threads "$threads" --benchmark "$@" >"$work/log" 2>&1
        times >"$work/times" # in a pipe, `times` would report another shell
        awk 'NR == 2 { split($1, u, /[ms]/); split($2, s, /[ms]/); print u[1] * 60 + u[2] + s[1] * 60 + s[2] }' "$work/times"
    )
}
precision_ours() { # NAME FLAGS...
    local name=$1 two eight
    shift
    two=$(cpu_seconds 2 "$@")
    eight=$(cpu_seconds 8 "$@")
    awk -v n="$name" -v a="$two" -v b="$eight" \
        'BEGIN { printf "{\"tool\": \"%s\", \"tokens_per_cpu_s\": %.1f}\n", n, 6 * 4 * 256 / (b - a) }'
}

if [ "$what" = all ] || [ "$what" = precision ]; then
    bloom=(--position-embedding-type alibi --embed-layernorm)
    llama=(--use-rotary-position-embeddings --swiglu --normalization RMSNorm --untie-embeddings-and-output-weights
        --disable-bias-linear --group-query-attention --num-query-groups 4)
    for arch in gpt2 bloom llama; do
        flags=()
        [ $arch = bloom ] && flags=("${bloom[@]}")
        [ $arch = llama ] && flags=("${llama[@]}")
        precision_ours "$arch, fp32, lm-train" "${flags[@]}"
        for precision in bf16 fp16; do
            precision_ours "$arch, $precision, lm-train" "${flags[@]}" "--$precision" --initial-loss-scale 1024
        done
        for precision in fp32 bf16; do
            "$python" bench/train_pytorch.py --arch $arch --precision $precision --layers 4 --hidden 512 --heads 8 \
                --vocab 8192 --threads "$threads" | jq -c --arg n "$arch, $precision, " '.tool = $n + .tool'
        done
    done >"$work/precision.json"
    table "Training, 4 layers of 512, vocabulary 8192, B=4 T=256, $threads threads" "tokens a second of CPU time" \
        tokens_per_cpu_s <"$work/precision.json"
fi

if [ "$what" = all ] || [ "$what" = tokenize ]; then
    IFS=: read -ra corpora <<<"${CORPUS:-build/corpus.jsonl}"
    [ -n "${CORPUS:-}" ] || [ -s build/corpus.jsonl ] || tools/make-corpus build/corpus.jsonl >&2
    "$python" bench/tokenizer_speed.py "$bin/lm-preprocess" share/tokenizers/gpt2 "$rounds" "${corpora[@]}"
fi
