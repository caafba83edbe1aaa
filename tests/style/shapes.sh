#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each View in a header of lib has a comment with its shape and dtype: members, members in containers and with initializers,
# parameters and results. lib/device/view.hpp, which defines View, is skipped. Planted faults are found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../lib"

find . \( -name '*.hpp' -o -name '*.cuh' \) ! -path ./device/view.hpp -print0 | sort -z | xargs -0 python3 "$here/shapes.py"

# The check itself, on a file with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cat >"$planted/good.hpp" <<'END'
struct Good {
    View x{};  // [N, C] fp32
    // [N] int32: tokens
    View tokens;
    View y;  // same shape as x
    std::vector<device::View> parts;  // each [N] fp32
    // Returns the result, [N, C] compute, of x, [N, C] of any
    // dtype. `into`: [N, C] compute.
    View forward(const View& x, const View& into) const;
    View again(const View& x) const { return x; }
    void copy(const View& x) override;
};
END
python3 "$here/shapes.py" "$planted/good.hpp"
for member in 'View x;' 'View x;  // [N, C]' 'View x;  // fp32' 'View x, y;  // the two' 'View x{};' 'View x = {};' \
    'std::vector<View> x;' 'std::array<device::View, 2> x{};' 'const device::View& x_;' 'View f(int n);' 'void f(const View& x);' \
    'void f(const View& x);  // the input, [N]' 'void f(const View& x, const View& y);  // x: [N] fp32' \
    'void f(int n, device::View x = {});'; do
    printf 'struct Bad {\n    %s\n};\n' "$member" >"$planted/bad.hpp"
    if python3 "$here/shapes.py" "$planted/bad.hpp" >/dev/null; then
        echo "a planted fault was not found: $member"
        exit 1
    fi
done
echo "every View states its shape"
