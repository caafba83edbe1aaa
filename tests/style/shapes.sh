#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Each View that a header or a source of lib declares has a comment with its shape and dtype: members, members in containers and with initializers,
# parameters and results. lib/device/view.hpp, which defines View, is skipped. Planted faults are found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../lib"

find . \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \) ! -path ./device/view.hpp -print0 | sort -z | xargs -0 python3 "$here/shapes.py"

# Tests the check on a file with one fault at a time.
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
# In a source, only functions that no header declares and local Views without an initializer need the comment.
mkdir "$planted/part"
cat >"$planted/part/unit.hpp" <<'END'
class Unit {
    // x: [N] fp32.
    void run(const View& x) const;
};
// x: [N] fp32.
void scale(const device::View& x, double by = 1);
END
cat >"$planted/part/good.cpp" <<'END'
#include "part/unit.hpp"
namespace {
// x: [N] fp32.
View half_of(const View& x) {
    const View y = x.rows(0, x[0] / 2);
    if (y) { use({.x = View{}}); }
    View z;  // [N] fp32
    return y ? y : z;
}
}  // namespace
void Unit::run(const View& x) const { scale(x, 2); }
void scale(const View& x, double by) { multiply(x, by); }
END
python3 "$here/shapes.py" "$planted/part/good.cpp"
for fault in 'View half_of(const View& x) {\n}' 'void scale(const View& x) {\n}' 'void f() {\n    if (n) {\n    }\n    View z;\n}' \
    'class Local {\n    View x_;\n};' 'namespace {\nstruct A {\n    void f(const View& x) {\n    }\n};\n}'; do
    for file in bad.cpp bad.cu; do
        printf '#include "part/unit.hpp"\n%b\n' "$fault" >"$planted/part/$file"
        if python3 "$here/shapes.py" "$planted/part/$file" >/dev/null; then
            echo "a planted fault was not found: $fault"
            exit 1
        fi
    done
done
echo "every View states its shape"
