#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# docs/megatron-flags.md has every flag of Megatron-LM (golden/megatron/flags.txt) and states what lm-train does with it. lm-train
# knows all of them. --write: writes the page.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
page=$here/../../docs/megatron-flags.md
table=$("$1/bin/test_flag_table" <"$here/../golden/megatron/flags.txt") || {
    echo "FAILED: a flag of Megatron-LM is unknown to lm-train"
    exit 1
}
# The flags of BigScience's and of deepspeedai's Megatron-DeepSpeed, and of older versions of Megatron-LM.
"$1/bin/test_flag_table" <"$here/../golden/megatron/flags_deepspeed.txt" >/dev/null || {
    echo "FAILED: a flag of Megatron-DeepSpeed is unknown to lm-train"
    exit 1
}
# The page begins with text that a person writes, up to the first heading of the second level.
text=$(sed '/^## /,$d' "$page")
if [ "${2-}" = --write ]; then
    printf '%s\n%s\n' "$text" "$table" >"$page"
elif ! diff <(printf '%s\n%s\n' "$text" "$table") "$page"; then
    echo "FAILED: docs/megatron-flags.md is not up to date: run $0 $1 --write"
    exit 1
fi
