#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything, without a warning, and runs the tests. The last line of output is "N passed, N failed, N skipped".
set -euo pipefail

usage() {
    cat <<'END'
Usage: ./check.sh [--all] [--long] [--fuzz] [--preset NAME] [--jobs N]
  (nothing)  build and run the quick suite: about 25 minutes on 2 cores, dependencies included
  --all      also compare with the live libraries (PyTorch, transformers, tokenizers), run the long
             tests, and run the unit tests and each fuzzer under the address and undefined-behaviour
             sanitizers: about 50 minutes
  --long     also run the proofs (ctest label proof), which may take hours
  --fuzz     also run each fuzzer for 10 minutes
  --fuzz-seconds N  time of each fuzzer, with --all by default 60
  --preset NAME  build preset, by default release; dev has debug information
  --jobs N   number of compilers that run at a time, by default the number of cores; one more test
             than that runs at a time
END
}

cd "$(dirname "$0")"
all=0
long=0
fuzz_s=0
preset=release
jobs=$(nproc)
while [ $# -gt 0 ]; do
    case $1 in
        --all)
            all=1
            [ "$fuzz_s" != 0 ] || fuzz_s=60
            ;;
        --long) long=1 ;;
        --fuzz) fuzz_s=600 ;;
        --fuzz-seconds)
            fuzz_s=${2:?--fuzz-seconds needs a number}
            shift
            ;;
        --preset)
            preset=${2:?--preset needs a name}
            shift
            ;;
        --jobs)
            jobs=${2:?--jobs needs a number}
            shift
            ;;
        -h | --help)
            usage
            exit 0
            ;;
        *)
            echo "check.sh: unknown option $1" >&2
            usage >&2
            exit 2
            ;;
    esac
    shift
done

start=$SECONDS
step() { echo "== $* ($((SECONDS - start)) s)"; }

stop() {
    echo "check.sh: $1"
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
}

# build PRESET TARGET...: configures and builds, with the flags of demo.sh, so that nothing is compiled twice.
build() {
    local preset=$1
    shift
    cmake --preset "$preset" >"build/$preset.log" 2>&1 || {
        cat "build/$preset.log"
        return 1
    }
    cmake --build "build/$preset" -j "$jobs" --target "$@"
}

# run SUITE PRESET CTEST-ARGUMENT...: runs tests and writes build/results/SUITE.xml, which records failures. Many tests only wait
# for processes and clocks, so the number of tests that run at a time is one more than $jobs.
results=()
run() {
    local suite=$1 preset=$2
    shift 2
    results+=("build/results/$suite.xml")
    ctest --test-dir "build/$preset" -j "$((jobs + 1))" --timeout 600 --output-on-failure \
        --output-junit "$PWD/build/results/$suite.xml" "$@" || true
}

mkdir -p build/results
rm -f build/results/*.xml
step "dependencies"
if [ $all = 1 ]; then
    tools/install-deps --venv --slurm || stop "the dependencies cannot be installed"
else
    tools/install-deps || stop "the dependencies cannot be installed"
fi
step "build"
build "$preset" all || stop "the build failed"
step "tests"
run quick "$preset" -LE '^(live|long|proof)$'
if [ $all = 1 ]; then
    step "live libraries and long tests"
    run all "$preset" -L '^(live|long)$' --timeout 1200
    step "sanitizers"
    if build asan unit_tests; then
        run asan asan -L '^unit$' --timeout 1200
    else
        results+=("build/results/asan.xml")
    fi
fi
if [ $long = 1 ]; then
    step "proofs"
    run proof "$preset" -L '^proof$' --timeout 14400
fi
if [ "$fuzz_s" != 0 ]; then
    step "fuzzers"
    if build asan fuzzers; then
        LM_FUZZ_SECONDS=$fuzz_s run fuzz asan -L '^fuzz$' --timeout $((fuzz_s + 300))
    else
        results+=("build/results/fuzz.xml")
    fi
fi
step "summary"
tools/test-summary "${results[@]}"
