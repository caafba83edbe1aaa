#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that needs a GPU, on this machine's: operations against the CPU's, copies and errors, compute-sanitizer,
# collectives, training of GPT-2, BLOOM and Llama shapes as on the CPU, resume, checkpoints from the one to the other.
set -euo pipefail

usage() {
    cat <<'END'
Usage: tests/gpu.sh [BUILD-DIRECTORY] [CTEST-OPTION...]
Builds what the tests with the label "gpu" need (default build/release; made when it is not there), then
runs them. Where there is no GPU they are skipped, each with a line that says why.
END
}

[[ ${1:-} != -h && ${1:-} != --help ]] || { usage; exit 0; }
cd "$(dirname "$0")/.."
build=${1:-build/release}
shift $(($# > 0 ? 1 : 0))
[ -e "$build/build.ninja" ] || cmake --preset release -B "$build" -D LM_CUDA=ON
cmake --build "$build" --target lm-train lm_cuda test_cuda test_conformance
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv 2>/dev/null || echo "no nvidia-smi"
exec ctest --test-dir "$build" -L gpu --output-on-failure --no-tests=error "$@"
