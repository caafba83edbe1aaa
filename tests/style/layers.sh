#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A layer includes only headers of the layers that lib/LAYERS allows it.
set -euo pipefail
cd "$(dirname "$0")/../../lib"
declare -A allowed
while IFS=: read -r layer uses; do
    allowed[$layer]=" $layer $uses "
done < <(grep -v '^#' LAYERS)
bad=0
while IFS=: read -r file line include; do
    from=${file%%/*}
    to=$(sed -E 's/.*#include "([^"]+)".*/\1/' <<<"$include")
    [[ $to == */* ]] || continue # a file of the same folder, or a generated one
    if [[ ${allowed[$from]-} != *" ${to%%/*} "* ]]; then
        echo "lib/$file:$line: $from must not include $to (lib/LAYERS)"
        bad=1
    fi
done < <(grep -rnE '^ *#include "' --include='*.cpp' --include='*.hpp' -- */)
for folder in */; do
    if [ -z "${allowed[${folder%/}]-}" ]; then
        echo "lib/$folder: not in lib/LAYERS"
        bad=1
    fi
done
exit $bad
