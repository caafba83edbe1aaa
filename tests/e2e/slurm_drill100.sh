#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of slurm_drill.sh: 100 faults and 30 simulated quiet days.
# labels: proof
# timeout: 14400
set -euo pipefail
exec bash "$(dirname "$0")/slurm_drill.sh" "$1" 100 1 30
