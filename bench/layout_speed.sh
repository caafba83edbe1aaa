#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures lm-estimate layout on large clusters: a Markdown table of seconds on stdout, the shortest of ROUNDS runs.
# bench/layout_speed.sh; environment: BIN (build/release/bin), ROUNDS (3), GPUS (10080).
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${BIN:-build/release/bin}
rounds=${ROUNDS:-3}
gpus=${GPUS:-10080}

# seconds FLAGS...: user and system time of the fastest run.
seconds() {
    local times
    for _ in $(seq "$rounds"); do
        times=$({ TIMEFORMAT='%U %S' && time "$bin/lm-estimate" layout --gpus "$gpus" "$@" --json >/dev/null 2>&1; } 2>&1)
        awk '{ printf "%.2f\n", $1 + $2 }' <<<"$times"
    done | sort -g | head -1
}

shape() { # LAYERS HIDDEN HEADS: flags of a GPT
    echo "--num-layers $1 --hidden-size $2 --num-attention-heads $3 --seq-length 2048 --vocab-size 51200"
}

echo "lm-estimate layout, $gpus GPUs ($(git describe --always --dirty)):"
echo
echo "| model | layers | hidden | batch | CPU s |"
echo "|---|---|---|---|---|"
while read -r name layers hidden heads batch; do
    # shellcheck disable=SC2046 # shape prints several words
    s=$(seconds $(shape "$layers" "$hidden" "$heads") --bf16 --global-batch-size "$batch")
    echo "| $name | $layers | $hidden | $batch | $s |"
done <<'MODELS'
1.7B 24 2304 24 10080
18B 40 6144 48 10080
76B 60 10240 80 10080
176B 70 14336 112 10080
310B 96 16384 128 10080
530B 105 20480 128 10080
620B 120 20480 160 20160
1008B 128 25600 160 20160
MODELS
