#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The checks of .clang-tidy over every translation unit of lib and cmd. A planted fault is found.
# labels: proof
# timeout: 7200
build=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
tidy=$(command -v clang-tidy-14 || command -v clang-tidy) || {
    echo "skipped: clang-tidy is not installed"
    exit 77
}
# The build may have warning flags that only g++ knows, and -Werror.
check() {
    "$tidy" --config-file="$here/../../.clang-tidy" -p "$1" --quiet --extra-arg=-Wno-unknown-warning-option "${@:2}" 2>err
}

cat >planted.cpp <<'END'
#include <string>
#include <utility>
size_t planted(std::string text) {
    const std::string other = std::move(text);
    return other.size() + text.size();
}
END
echo "[{\"directory\": \"$PWD\", \"command\": \"c++ -std=c++20 -c planted.cpp\", \"file\": \"planted.cpp\"}]" >compile_commands.json
! check . planted.cpp >out || fail "a planted fault was not found"
grep -q 'bugprone-use-after-move' out || fail "$(cat out err)"

jq -r '.[].file | select(endswith(".cpp")) | select(test("/(lib|cmd)/|/unity/lm")) | select(test("/tests/|/generated/") | not)' \
    "$build/compile_commands.json" | sort -u >units
[ "$(wc -l <units)" -gt 50 ] || fail "only $(wc -l <units) units"
failed=0
while read -r unit; do
    check "$build" "$unit" >>report || failed=1
    ! grep -q 'Compile command not found' err || fail "$(cat err)"
done <units
[ $failed = 0 ] || fail "$(grep -E 'warning:|error:' report)"
echo "$(wc -l <units) units"
