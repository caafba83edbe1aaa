#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# later_architectures.sh LIBRARY DIRECTORY...: compiles the PTX in LIBRARY for GPUs after H100, as the driver does when it loads
# the library there: sm_100 (B200) and sm_120. Needs cuobjdump, in the path or a DIRECTORY, and ptxas.
set -euo pipefail
library=$(realpath "$1")
shift
for directory; do PATH=$PATH:$directory; done
for tool in cuobjdump ptxas; do
    command -v $tool >/dev/null || {
        echo "skipped: no $tool"
        exit 77
    }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cuobjdump --extract-ptx all "$library" >/dev/null
n=$(find . -name '*.ptx' | wc -l)
[ "$n" -gt 0 ] || {
    echo "FAILED: no PTX in $library"
    exit 1
}
for architecture in sm_100 sm_120; do
    for ptx in *.ptx; do
        ptxas -arch=$architecture -o /dev/null "$ptx" || {
            echo "FAILED: $ptx for $architecture"
            exit 1
        }
    done
    echo "$n files of PTX for $architecture"
done
