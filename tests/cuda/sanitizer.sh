#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the operation cases on a GPU under the tools of compute-sanitizer. Exit code 77: no GPU or no compute-sanitizer.
# Usage: sanitizer.sh TEST_CUDA [TOOL...]. By default each tool runs a part of the cases, so that it ends within
# minutes; LM_TEST_EVERY=1 runs all.
set -euo pipefail
test_cuda=$1
shift
[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck
declare -A every=([memcheck]=2 [racecheck]=8 [synccheck]=4 [initcheck]=4)
code=0
"$test_cuda" --list-tags >/dev/null || code=$?
[ $code != 77 ] || { "$test_cuda" --list-tags; exit 77; }
in_archive=$(dirname "$0")/../../compute-sanitizer/compute-sanitizer # its place in the archive of cuda12_kit.sh
sanitizer=$(command -v compute-sanitizer "$in_archive" /usr/local/cuda/bin/compute-sanitizer | head -n 1 || true)
if [ -z "$sanitizer" ]; then
    echo "skipped: no compute-sanitizer"
    exit 77
fi
for tool in "$@"; do
    echo "== $tool"
    LM_TEST_EVERY=${LM_TEST_EVERY:-${every[$tool]}} "$sanitizer" --tool "$tool" --error-exitcode 9 "$test_cuda" "[cases]"
done
