#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# train_hang.sh with 8 ranks and 30 random moments.
# labels: e2e;mpi;proof
# timeout: 1800
exec bash "$(dirname "$(realpath "$0")")/train_hang.sh" "$1" 30 8
