#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 850 random histories of a checkpoint directory against a model, after the 150 of unit.ckpt.
# labels: long
# timeout: 300
set -euo pipefail
"$1/tests/test_ckpt" "[histories]"
