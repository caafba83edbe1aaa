#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_fuzzer.sh FUZZER SEEDS FOUND: runs a fuzzer for LM_FUZZ_SECONDS [60] on the corpora SEEDS and FOUND. New inputs go to FOUND,
# an input that fails to FOUND.failed/. The last line states executions and coverage.
set -euo pipefail
mkdir -p "$3" "$3.failed"
"$1" -max_total_time="${LM_FUZZ_SECONDS:-60}" -timeout=20 -rss_limit_mb=1024 -malloc_limit_mb=256 -print_final_stats=1 \
    -artifact_prefix="$3.failed/" "$3" "$2" >"$3.log" 2>&1 || {
    tail -n 60 "$3.log"
    exit 1
}
echo "${1##*/}: $(sed -nE 's/^stat::number_of_executed_units: +//p' "$3.log") executions, coverage" \
    "$(grep -Eo 'cov: [0-9]+ ft: [0-9]+ corp: [0-9]+' "$3.log" | tail -n 1)"
