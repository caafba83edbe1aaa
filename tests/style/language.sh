#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Comments, messages and documents contain no phrase of language.tsv (docs/style.md has the reasons); planted ones are
# found.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
check() { python3 "$here/language.py" "$1" "$here/language.tsv"; }

# Tests the check on a tree with one fault at a time.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted/lib/io" "$planted/docs"
# finds FILE LINE PHRASE: the check of the planted tree reports PHRASE in that line.
finds() {
    local report
    if report=$(check "$planted") || [[ $report != *"$1:$2: \"$3\""* ]]; then
        echo "a planted phrase was not found: $1:$2: $3"
        exit 1
    fi
    rm "$planted/$1"
}
cat >"$planted/lib/io/clean.cpp" <<'END_OF_FILE'
#include "io/side_file.hpp"
// Writes the metadata file. Throws Error(failure).
const char* behind = "resumes at {}"; const int f32 = 1'000'000; const char quote = '"';
END_OF_FILE
check "$planted" >/dev/null
printf 'int a;\n// The metadata\n// of the side\n// file.\n' >"$planted/lib/io/a.cpp"
finds lib/io/a.cpp 3 "side file"
printf 'f("{}: the run goes "\n  "on");\n' >"$planted/lib/io/a.cpp"
finds lib/io/a.cpp 1 "goes on"
printf 'f(R"(x\nthe run goes on)");\n' >"$planted/lib/io/a.cpp"
finds lib/io/a.cpp 2 "goes on"
printf '/* What it was. */\n' >"$planted/lib/io/a.hpp"
finds lib/io/a.hpp 1 "What "
printf 'cmake()\n# the sighting\n' >"$planted/CMakeLists.txt"
finds CMakeLists.txt 2 "sighting"
printf 'x = 1\nprint("what is left")  # fine\n' >"$planted/a.py"
finds a.py 2 "what is left"
printf '# Title\n\nA file beside\nthe others.\n' >"$planted/docs/a.md"
finds docs/a.md 3 "beside"
printf '.Sh NAME\n.Nm\ntells its users.\n' >"$planted/docs/a.1.in"
finds docs/a.1.in 3 "tells"

check "$here/../.."
