#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of train_ranks_kill.sh: 50 kills, about 5 minutes on two idle cores.
# labels: proof
# timeout: 14400
set -euo pipefail
exec bash "$(dirname "$0")/train_ranks_kill.sh" "$1" 50
