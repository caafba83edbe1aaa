#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The models of a step on a GPU. bench/cuda.md has the tables that bench/step_model.py computes, with the FLOPs and parameters of
# lm-estimate, and bench/gemm_model.py has the products of lm-train. NVIDIA's model is a stand-in here unless the package is
# installed.
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$(dirname "$0")/common.bash"
bench=$root/bench
export PYTHONDONTWRITEBYTECODE=1

# ---- bench/cuda.md ----
python3 "$bench/step_model.py" --check "$bench/cuda.md" >log || fail "$(cat log)"
# A wrong figure is found: of a step, of a line of GB, and of a floor.
for change in 's/^| products | [0-9]*/| products | 1/' 's/^| accumulation | [0-9.]*/| accumulation | 1/' \
    's/^\(| GPT-2 124M: B=64 T=1024, 12 heads of 64 .*| \)0.12 |/\10.22 |/'; do
    sed "$change" "$bench/cuda.md" >changed.md
    if cmp -s changed.md "$bench/cuda.md"; then fail "no such line: $change"; fi
    if python3 "$bench/step_model.py" --check changed.md >log; then fail "not found: $change"; fi
    [ "$(wc -l <log)" = 2 ] || fail "$change: $(cat log)"
done

# ---- FLOPs and parameters against lm-estimate ----
python3 "$bench/step_model.py" --json >models.json
llama=(--num-layers 16 --hidden-size 2048 --num-attention-heads 16 --group-query-attention --num-query-groups 4 --ffn-hidden-size 5632
    --swiglu --normalization RMSNorm --use-rotary-position-embeddings --untie-embeddings-and-output-weights --disable-bias-linear
    --seq-length 4096)
compare() {
    local index=$1
    shift
    run estimate.json lm-estimate params "$@" --vocab-size 50304 --json
    jq -es --argjson index "$index" '.[0][$index] as $model | .[1:] | any(.model_flops_per_token == $model.model_flops_per_token)
        and any(.total == $model.parameters)' models.json estimate.json >/dev/null || fail "model $index: $(cat models.json estimate.json)"
}
compare 0 --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024
compare 1 --num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024
compare 2 "${llama[@]}"

# ---- Products ----
mkdir stand_in
cat >stand_in/nvMatmulHeuristics.py <<'END'
import enum

NvMatmulHeuristicsTarget = enum.Enum("NvMatmulHeuristicsTarget", "CUTLASS3")
NvMatmulHeuristicsFlags = enum.Enum("NvMatmulHeuristicsFlags", "PERF_MODEL_BASED_AUTO_TUNING")
NvMatmulHeuristicsNvidiaGpu = enum.Enum("NvMatmulHeuristicsNvidiaGpu", "H100_SXM H200_SXM")
NvMatmulHeuristicsMatmulLayout = enum.Enum("NvMatmulHeuristicsMatmulLayout", "NT_ROW_MAJOR NN_ROW_MAJOR TN_ROW_MAJOR")


class NvMatmulHeuristicsInterfaceEx:
    """Every product at 100 TFLOP/s, and a slower candidate."""

    def __init__(self, backend, flags, gpu):
        self.gpu = gpu

    def makeNvMatmulHeuristicsProblem(self, m, n, k, layout):
        return 2 * m * n * k

    def get(self, flop, count, precision):
        assert precision in ("TST", "TSS")
        return [{"runtime": 2 * flop / 1e14}, {"runtime": flop / 1e14}]
END
PYTHONPATH=stand_in run products python3 "$bench/gemm_model.py" --all
[ "$(grep -c ' 100 TFLOP/s$' products)" -ge 96 ] || fail "$(cat products)"
for gpu in H100_SXM H200_SXM; do
    # Three products of all weights, for 65536 rows: 6 x 65536 x (12 x 12 x 768^2 + 50304 x 768) FLOPs.
    grep -qx "GPT-2 124M, B=64, T=1024, $gpu: 485.9 ms of products a micro-batch, 100 TFLOP/s" products || fail "$gpu: $(cat products)"
done
# The head has the chunks of lm-train. The last chunk is smaller than the others.
grep -Eq '^  head, forward +9408 x  50304 x    768   6 x' products || fail "$(grep head products)"
grep -Eq '^  head, forward +9088 x  50304 x    768   1 x' products || fail "$(grep head products)"
if python3 -c 'import nvMatmulHeuristics' 2>/dev/null; then
    run products python3 "$bench/gemm_model.py"
    for line in "GPT-2 124M, B=64, T=1024, H100_SXM: 68.6 ms" "GPT-2 1558M, B=16, T=1024, H100_SXM: 203.8 ms" \
        "Llama-style 1B, B=4, T=4096, H100_SXM: 95.1 ms"; do
        grep -q "^$line" products || fail "not '$line': $(cat products)"
    done
fi
echo "the models of a step agree with bench/cuda.md and lm-estimate"
