#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# labels: long
# timeout: 900
# A slower program executes more instructions. callgrind counts the instructions of small workloads, also on a busy machine. Most
# counts are the difference of two runs, which contains neither start nor end. bench/instructions.tsv has the expected counts
# (tolerance 3 %), and the compiler and system with which they were recorded. After a change that should change a count, write the
# file again:
#   tests/e2e/instruction_counts.sh BUILD --write
here=$(dirname "$(realpath "$0")")
recorded=$here/../../bench/instructions.tsv
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"

cache=$(dirname "$bin")/CMakeCache.txt
variable() { sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
compiler=$(variable CMAKE_CXX_COMPILER)
origin="$("$compiler" --version | head -n 1), $(variable CMAKE_BUILD_TYPE), $(. /etc/os-release && echo "$PRETTY_NAME")"
if ! command -v valgrind >/dev/null; then
    echo "skipped: valgrind is not installed"
    exit 77
fi
if [ "${2:-}" != --write ] && [ "# $origin" != "$(head -n 1 "$recorded")" ]; then
    echo "skipped: this build has $origin, but bench/instructions.tsv was recorded with $(sed -n '1s/^# //p' "$recorded")"
    exit 77
fi

# count COMMAND...: prints the number of instructions that the command executes. valgrind has no AVX-512.
count() {
    LM_PROCESSOR=avx2 valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" >log 2>&1 </dev/null ||
        fail "$*: $(cat log)"
    sed -n 's/.*Collected : //p' log
}

# Text of words with the frequencies of a natural language (Zipf), 2 % of them in another script.
words() { # DOCUMENTS
    awk -v n="$1" 'BEGIN {
        srand(11)
        for (w = 1; w <= 4000; w++) {
            word[w] = ""
            for (length_ = 2 + int(8 * rand()); length_ > 0; length_--) word[w] = word[w] sprintf("%c", 97 + int(26 * rand() * rand()))
        }
        for (d = 0; d < n; d++) {
            text = ""
            for (i = 0; i < 200; i++) {
                w = int(exp(8.29 * rand()))
                text = text (rand() < 0.02 ? "Привет" : word[w < 1 ? 1 : w]) (rand() < 0.1 ? ", " : " ")
            }
            printf "{\"text\": \"%s\\n\"}\n", text
        }
    }'
}
words 2000 >many.jsonl
head -n 400 many.jsonl >few.jsonl

preprocess() { # FILE FLAGS...
    local file=$1
    shift
    count lm-preprocess --input "$file" --output-prefix out --workers 1 --force --quiet "$@"
}
# The shapes are small, because valgrind calls a function for each fused multiply-add.
train() { # HIDDEN VOCABULARY SEQUENCE FLAGS...
    count lm-train --num-layers 2 --hidden-size "$1" --num-attention-heads 4 --vocab-size "$2" --seq-length "$3" --mock-data \
        --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --lr-decay-iters 10 --eval-iters 0 --device cpu --threads 1 \
        --log-interval 1 --no-node-check "${@:4}"
}

declare -A counts
counts[encode]=$(($(preprocess many.jsonl) - $(preprocess few.jsonl)))
counts[parse]=$(($(preprocess many.jsonl --tokenizer-type ByteTokenizer) - $(preprocess few.jsonl --tokenizer-type ByteTokenizer)))
counts[step]=$((($(train 64 512 32 --train-iters 3) - $(train 64 512 32 --train-iters 1)) / 2))
counts[save]=$(($(train 128 4096 4 --train-iters 1 --save saved) - $(train 128 4096 4 --train-iters 1)))
counts[resume]=$(train 128 4096 4 --train-iters 2 --load saved)

if [ "${2:-}" = --write ]; then
    { echo "# $origin" && for name in encode parse step save resume; do printf '%s\t%s\n' $name "${counts[$name]}"; done; } >"$recorded"
    exit 0
fi
for name in encode parse step save resume; do
    expected=$(awk -v name=$name '$1 == name { print $2 }' "$recorded")
    permille=$((1000 * counts[$name] / ${expected:?no count of $name in bench/instructions.tsv}))
    echo "$name: ${counts[$name]} instructions, $((permille / 10)).$((permille % 10)) % of those recorded"
    if [ $permille -lt 970 ] || [ $permille -gt 1030 ]; then
        fail "$name: expected $expected instructions within 3 %, got ${counts[$name]}: if this is intended, record them with --write"
    fi
done
