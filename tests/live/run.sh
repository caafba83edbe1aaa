#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh SCRIPT.py BUILD: runs a comparison with live libraries in .venv, or in the environment that a line "# venv: DIR" of the
# script names. Without this environment it prints the reason and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/../.."
venv=$(sed -n 's/^# venv: //p' "tests/live/$1")
venv=${venv:-.venv}
option=--venv
if [ "$venv" = .venv-megatron ]; then option=--megatron; fi
if [ ! -f "$venv/complete" ]; then
    why=$(cat "$venv/why-not" 2>/dev/null || echo "tools/install-deps $option has not been run")
    echo "skipped: no $venv: $why"
    exit 77
fi
export PYTHONPATH=$PWD/tests/live HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
exec "$venv/bin/python" "tests/live/$1" "$2"
