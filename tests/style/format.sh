#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every C++ file is formatted as .clang-format says.
set -euo pipefail
cd "$(dirname "$0")/../.."
mapfile -t files < <(find lib cmd tests -name '*.cpp' -o -name '*.hpp')
if ! clang-format-14 --dry-run -Werror "${files[@]}"; then
    echo "run: clang-format-14 -i \$(find lib cmd tests -name '*.[ch]pp')"
    exit 1
fi
echo "${#files[@]} files"
