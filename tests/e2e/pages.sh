#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every command of README.md and docs succeeds as it is printed, in the order of its page, with small data. (Those of
# docs/operations.md, which need Slurm, are tested by slurm_docs.sh.)
# labels: proof
# timeout: 1800
root=$(realpath "$(dirname "$0")/../..")
# shellcheck source=tests/e2e/common.bash
. "$root/tests/e2e/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$root/tests/e2e/mpirun.bash"
mkdir data
"$root/tests/man/prepare_pages.sh" data
pages=("$root/README.md")
for page in "$root"/docs/*.md; do
    case $(basename "$page") in
        # These describe formats and code.
        operations.md | architecture.md | checkpoint-format.md | style.md | glossary.md | megatron-flags.md) ;;
        *) pages+=("$page") ;;
    esac
done
python3 "$root/tests/man/run_pages.py" data "${pages[@]}"
