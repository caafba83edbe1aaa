#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of train_save.sh: tests a failure, a short write and a kill at every operation on files.
# labels: proof
# timeout: 3600
set -euo pipefail
exec bash "$(dirname "$0")/train_save.sh" "$1" 1
