#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The operations on the GPU under compute-sanitizer, where both are there: accesses, then barriers and shared memory.
# Usage: sanitizer.sh TEST_CUDA [TOOL...]; LM_TEST_EVERY=1 takes all cases, in place of so many that each tool is done
# within minutes.
set -euo pipefail
test_cuda=$1
shift
[ $# -gt 0 ] || set -- memcheck racecheck synccheck initcheck
declare -A every=([memcheck]=2 [racecheck]=8 [synccheck]=4 [initcheck]=4)
code=0
"$test_cuda" --list-tags >/dev/null || code=$?
[ $code != 77 ] || { "$test_cuda" --list-tags; exit 77; }
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [ -z "$sanitizer" ]; then
    echo "skipped: there is no compute-sanitizer"
    exit 77
fi
for tool in "$@"; do
    echo "== $tool"
    LM_TEST_EVERY=${LM_TEST_EVERY:-${every[$tool]}} "$sanitizer" --tool "$tool" --error-exitcode 9 "$test_cuda" "[cases]"
done
