#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of train_nan.sh: 100 planted faults.
# labels: proof;mpi
# timeout: 3600
exec bash "$(dirname "$0")/train_nan.sh" "$1" 100
