#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/architecture.md has a sentence for each folder, and its stops exist; lib/LAYERS has a sentence for each layer.
# Headers that comments name exist. Planted faults are found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
check() { python3 "$here/architecture.py" "$1"; }

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
# reset: makes a tree without a fault.
reset() {
    rm -rf "${planted:?}"/*
    mkdir -p "$planted/docs" "$planted/lib/io/codec" "$planted/cmd/train"
    printf '# Files.\nio:\n' >"$planted/lib/LAYERS"
    printf 'int open_file(int n) {\n    return read_all(n);\n}\n' >"$planted/lib/io/file.cpp"
    printf 'class Stream {\n  public:\n    void read(int n);\n};\n' >"$planted/lib/io/stream.hpp"
    cat >"$planted/docs/architecture.md" <<'END_OF_PAGE'
| folder | contents |
|---|---|
| `lib/io` | files |
| `lib/io/codec` | compression |
| `cmd/train` | lm-train |

First `lib/io/file.cpp:open_file`, then `lib/io/stream.hpp:Stream::read` of `lib/io/stream.hpp:Stream`.
END_OF_PAGE
    # shellcheck disable=SC2016
    echo 'Add a row to `lib/io/file.cpp` and to `lib/io/CLASS.hpp`.' >"$planted/CONTRIBUTING.md"
}
# finds TEXT: the check of the planted tree reports TEXT.
finds() {
    local report
    if report=$(check "$planted") || [[ $report != *"$1"* ]]; then
        echo "a planted fault was not found: $1"
        exit 1
    fi
    reset
}
reset
check "$planted"
mkdir "$planted/lib/cli"
finds "no row for lib/cli"
mkdir "$planted/lib/io/x86"
finds "no row for lib/io/x86"
mkdir "$planted/lib/io/codec/x86"
finds "no row for lib/io/codec/x86"
rmdir "$planted/cmd/train"
finds "the row cmd/train has no folder"
# shellcheck disable=SC2016
echo '`lib/io/gone.cpp:open_file`' >>"$planted/docs/architecture.md"
finds "lib/io/gone.cpp:open_file: no such file"
# shellcheck disable=SC2016
echo '`lib/io/gone.cpp`' >>"$planted/docs/architecture.md"
finds "lib/io/gone.cpp: no such file"
# shellcheck disable=SC2016
echo '`lib/io/file.cpp:read_all`' >>"$planted/docs/architecture.md"
finds "lib/io/file.cpp:read_all: not defined there"
# shellcheck disable=SC2016
echo '`lib/io/stream.hpp:Stream::write`' >>"$planted/docs/architecture.md"
finds "lib/io/stream.hpp:Stream::write: not defined there"
# shellcheck disable=SC2016
echo '`lib/io/lost.cpp`' >>"$planted/CONTRIBUTING.md"
finds "CONTRIBUTING.md: lib/io/lost.cpp: no such file"
echo '// As in gone.hpp.' >>"$planted/lib/io/file.cpp"
finds "lib/io/file.cpp:4: the comment names gone.hpp: no such file"
echo '// As in tests/io/gone.py.' >>"$planted/lib/io/file.cpp"
finds "lib/io/file.cpp:4: the comment names tests/io/gone.py: no such file"
echo '// As in stream.hpp, io/stream.hpp, lib/io/stream.hpp and helpers.cpp of Megatron-LM.' >>"$planted/lib/io/file.cpp"
check "$planted"
echo 'io:' >"$planted/lib/LAYERS"
finds "lib/LAYERS: no comment above io"

check "$here/../.."
echo "the map holds"
