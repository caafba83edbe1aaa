#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file is formatted by .clang-format.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(find lib cmd tests -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h')
if ! clang-format-14 --dry-run -Werror "${files[@]}"; then
    echo "run: clang-format-14 -i \$(find lib cmd tests -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h')"
    exit 1
fi
echo "${#files[@]} files"
