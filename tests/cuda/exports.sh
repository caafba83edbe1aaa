#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh LIBRARY FUNCTION: LIBRARY exports FUNCTION and no other symbol. So the symbols of libraries that are linked into
# LIBRARY neither replace symbols of other libraries in the process nor are replaced by them.
set -euo pipefail
names=$(nm -D --defined-only "$1" | awk '{ print $NF }')
[ "$names" = "$2" ] || {
    echo "FAILED: $1 exports $(wc -l <<<"$names") symbols, expected $2 only: $(head -n 5 <<<"$names")"
    exit 1
}
echo "$(basename "$1") exports $2 only"
