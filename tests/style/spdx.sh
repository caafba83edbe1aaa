#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first lines.
set -euo pipefail
cd "$(dirname "$0")/../.."
bad=0
while read -r file; do
    if ! grep -q 'SPDX-License-Identifier: ' <<<"$(head -n 3 "$file")"; then
        echo "$file: no SPDX line"
        bad=1
    fi
done < <(find lib cmd tests cmake tools bench man share -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' -o -name '*.h' -o -name '*.sh' -o -name '*.py' -o -name '*.cmake' \
    -o -name CMakeLists.txt 2>/dev/null)
exit $bad
