#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Losses, gradient norms, rates and samples of 40 iterations are those that megatron-core 0.16.1 computed from the same weights
# and data (tests/golden/megatron/trainings.json): flags of architecture, optimizer, schedule and data in several layouts.
# live.megatron_training compares with the installed library.
# labels: e2e;mpi
# timeout: 180
here=$(dirname "$(realpath "$0")")
# shellcheck source=tests/e2e/common.bash
. "$here/common.bash"
# shellcheck source=tests/e2e/mpirun.bash
. "$here/mpirun.bash"

PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$here/../live python3 "$here/../live/megatron_training.py" "${bin%/bin}" --recorded
