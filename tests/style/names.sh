#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Within a layer no two files and no two public types have one name: a layer is one namespace, in which two types of one name break
# the one-definition rule without a message. A test has the name of its subject. names.tsv lists the names that stand for one
# subject in several folders, and the tests that span several sources. Planted faults are found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
# reset: makes a tree without a fault.
reset() {
    rm -rf "${planted:?}"/*
    mkdir -p "$planted/lib/io/x86" "$planted/lib/io/zip" "$planted/lib/cli" "$planted/tests/io"
    touch "$planted"/tests/io/{file,x86,helper}_test.cpp "$planted/tests/io/helper.hpp"
    printf 'struct File {\n    enum class Kind { text };\n};\n' | tee "$planted/lib/cli/file.hpp" >"$planted/lib/io/file.hpp"
    printf 'class Option {\n  public:\n    enum class Kind { flag };\n\n  private:\n    struct File {\n    };\n};\n' \
        >"$planted/lib/io/option.hpp"
    printf 'class File;\n' >>"$planted/lib/io/option.hpp"
    touch "$planted/lib/io/x86/file.cpp"
    printf '# none\n' >"$planted/allowed.tsv"
}
check() { python3 "$here/names.py" "$planted" "$planted/allowed.tsv"; }
# finds TEXT: the check of the planted tree reports TEXT.
finds() {
    local report
    if report=$(check) || [[ $report != *"$1"* ]]; then
        echo "a planted fault was not found: $1"
        exit 1
    fi
    reset
}
reset
check
touch "$planted/lib/io/zip/file.cpp"
finds "file file: the same name in lib/io, lib/io/zip"
printf 'enum class Kind : u8 { a };\n' >"$planted/lib/io/zip/kind.hpp"
finds "type Kind: the same name in lib/io, lib/io/zip"
printf 'class File final : public Base {\n' >"$planted/lib/io/zip/files.hpp"
finds "type File: the same name in lib/io, lib/io/zip"
printf 'using Option = int;\n' >"$planted/lib/io/zip/names.hpp"
finds "type Option: the same name in lib/io, lib/io/zip"
printf 'file\tfile\tlib/io lib/io/zip\tone subject\n' >"$planted/allowed.tsv"
finds "file file is not shared in lib/io/zip: remove it"
printf 'file\tfile\tlib/io lib/io/zip\n' >"$planted/allowed.tsv"
finds "expected KIND, NAME, FOLDERS and REASON"
touch "$planted/tests/io/none_test.cpp"
finds "test none in tests/io: name it SUBJECT_test.cpp"
printf 'test\tfile\ttests/io\tone subject\n' >"$planted/allowed.tsv"
finds "test file is not shared in tests/io: remove it"

python3 "$here/names.py" "$here/../.." "$here/names.tsv"
echo "each name has one subject"
