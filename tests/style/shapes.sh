#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every View member of the model's structs and of the operations' arguments states its shape and
# dtype, `View x; // [R, C] fp32`, after it or in the comment line before it; a member of the same
# shape and dtype as another one has "same shape as NAME". A missing comment is seen.
set -euo pipefail
cd "$(dirname "$0")/../../lib"

# check_files FILE...: prints the members without shape or dtype; fails when there is one.
check_files() {
    awk '
        function states_shape(text) {
            return text ~ /\/\/.*\[[^]]*\].*(compute|fp64|fp32|bf16|fp16|int64|int32|uint8|any dtype)/ ||
                   text ~ /\/\/.*same shape as/
        }
        FNR == 1 { before = "" }
        /^ +(const )?(device::)?View&? +[a-z_]+(, *[a-z_]+)*(\{\})? *;/ {
            if (!states_shape($0) && !(before ~ /^ *\/\// && states_shape(before))) {
                member = $0
                sub(/;.*/, ";", member)
                gsub(/^ +/, "", member)
                print "lib/" FILENAME ":" FNR ": " member " without `// [SHAPE] DTYPE`"
                bad = 1
            }
        }
        { before = $0 }
        END { exit bad }' "$@"
}

check_files model/*.hpp device/ops.hpp

# The check itself, on a file with one fault.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cat >"$planted/good.hpp" <<'END'
struct Good {
    View x{};  // [N, C] fp32
    // [N] int32: tokens
    View tokens;
    View y;  // same shape as x
    View forward(const View& x);
};
END
(cd "$planted" && check_files good.hpp)
for member in 'View x;' 'View x;  // [N, C]' 'View x;  // fp32' 'View x, y;  // the two' 'View x{};'; do
    printf 'struct Bad {\n    %s\n};\n' "$member" >"$planted/bad.hpp"
    if (cd "$planted" && check_files bad.hpp) >/dev/null; then
        echo "a planted member was not seen: $member"
        exit 1
    fi
done
echo "every View states its shape"
