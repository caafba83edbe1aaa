#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Terms that denote something else, or nothing, for a reader of this field (docs/style.md, "Terms"). A planted one is found.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Each line: a Perl regular expression, and what the text should contain instead.
terms() {
    cat <<'END'
(?<![\w.:])f(16|32|64)(?![\w.(])	fp16, fp32, fp64: f32 is a type of the code
\bmultiprocessors?\b	SM: NVIDIA's manuals count multiprocessors, our flags count SMs
\bside[- ]files?\b	metadata file
\bsplitters?\b	pre-tokenizer
END
}

# check FILE...: prints each line of prose that has one of the terms; fails on any.
check() {
    local bad=0 pattern replacement
    while IFS=$'\t' read -r pattern replacement; do
        if grep -nHP -- "$pattern" "$@" | grep -v 'docs/style.md:'; then
            echo "write $replacement"
            bad=1
        fi
    done < <(terms)
    return $bad
}

planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
echo 'The moments are f32, not bf16.' >"$planted/a.md"
if check "$planted/a.md" >/dev/null; then
    echo "a planted term was not found"
    exit 1
fi
check docs/*.md man/*.in README.md CHANGELOG.md CONTRIBUTING.md bench/*.md
