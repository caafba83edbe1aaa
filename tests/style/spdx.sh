#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source file names its licence in its first lines. The licence of GPT-2's vocabulary is OpenAI's text, byte for byte, in
# share and in debian/copyright.
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
licence=share/tokenizers/gpt2/LICENSE
# The SHA-256 of LICENSE in github.com/openai/gpt-2.
openai=0dbeda4bc78823b1d67ec0ee414d8690ee4cad826bc9c147b215adc3af202436
if ! sha256sum --status --check <<<"$openai  $licence"; then
    echo "$licence: is not the text of OpenAI's LICENSE"
    bad=1
fi
if ! sed -n '/^License: MIT-OpenAI$/,$p' debian/copyright | sed '1d; s/^ \.$//; s/^ //' | cmp -s - $licence; then
    echo "debian/copyright: differs from $licence"
    bad=1
fi
exit $bad
