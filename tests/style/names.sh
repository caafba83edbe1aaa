#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# No two unrelated source files and no two unrelated public types have one name, and a test has the name of its subject. names.tsv
# lists the names that stand for one subject in several folders, and the tests that span several sources. Planted faults are found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
# reset: makes a tree without a fault.
reset() {
    rm -rf "${planted:?}"/*
    mkdir -p "$planted/lib/io/x86" "$planted/lib/cli" "$planted/cmd/train" "$planted/tests/io"
    touch "$planted"/tests/io/{file,x86,helper}_test.cpp "$planted/tests/io/helper.hpp"
    printf 'struct File {\n    enum class Kind { text };\n};\n' >"$planted/lib/io/file.hpp"
    printf 'class Option {\n  public:\n    enum class Kind { flag };\n\n  private:\n    struct File {\n    };\n};\n' \
        >"$planted/lib/cli/option.hpp"
    printf 'class File;\n' >>"$planted/lib/cli/option.hpp"
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
touch "$planted/cmd/train/file.cpp"
finds "file file: the same name in cmd/train, lib/io"
printf 'enum class Kind : u8 { a };\n' >"$planted/lib/io/kind.hpp"
finds "type Kind: the same name in lib/cli, lib/io"
printf 'class File final : public Base {\n' >"$planted/lib/cli/files.hpp"
finds "type File: the same name in lib/cli, lib/io"
printf 'using Option = int;\n' >"$planted/lib/io/names.hpp"
finds "type Option: the same name in lib/cli, lib/io"
printf 'file\tfile\tlib/io cmd/train\tone subject\n' >"$planted/allowed.tsv"
finds "file file is not shared in cmd/train: remove it"
printf 'file\tfile\tlib/io cmd/train\n' >"$planted/allowed.tsv"
finds "expected KIND, NAME, FOLDERS and REASON"
touch "$planted/tests/io/option_test.cpp"
finds "test option in tests/io: name it SUBJECT_test.cpp"
printf 'test\tfile\ttests/io\tone subject\n' >"$planted/allowed.tsv"
finds "test file is not shared in tests/io: remove it"

python3 "$here/names.py" "$here/../.." "$here/names.tsv"
echo "each name has one subject"
