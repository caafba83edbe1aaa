#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of preprocess_resume.sh: 50 kills.
# labels: proof
# timeout: 900
set -euo pipefail
LM_LONG=1 exec bash "$(dirname "$0")/preprocess_resume.sh" "$1"
