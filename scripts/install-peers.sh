#!/usr/bin/env bash
# Makes an environment that holds exactly bench/requirements-peers.lock: install-peers.sh UV VENV
set -euo pipefail
uv=$1 venv=$2
python=${PYTHON:-python3}

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
VIRTUAL_ENV=$(realpath "$venv") "$uv" pip sync --quiet --require-hashes bench/requirements-peers.lock
