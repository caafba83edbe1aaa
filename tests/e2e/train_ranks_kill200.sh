#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of train_ranks_kill.sh: 200 kills, 43 minutes on two cores that also ran builds.
# labels: proof
# timeout: 14400
set -euo pipefail
exec bash "$(dirname "$0")/train_ranks_kill.sh" "$1" 200
