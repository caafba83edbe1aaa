#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares 850 random histories of a checkpoint directory with a model. unit.ckpt compares the first 150.
# labels: long
# timeout: 300
set -euo pipefail
"$1/tests/test_ckpt" "[histories]"
