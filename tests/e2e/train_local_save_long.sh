#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The long form of train_local_save.sh: kills in the first local save, around a durable save and later; damage, rollback,
# failed local saves.
# labels: long;mpi
# timeout: 900
exec bash "$(dirname "$(realpath "$0")")/train_local_save.sh" "$1" "60 158 175 222 287 290" all
