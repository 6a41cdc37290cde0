#!/usr/bin/env bash
# Makes a virtual environment that holds exactly requirements.lock and this repository's packages.
set -euo pipefail
venv=$(realpath -m "$1")
python=${PYTHON:-python3}

command -v "$python" >/dev/null || { echo "no $python here (set PYTHON=/path/to/python)" >&2; exit 1; }
"$python" - <<'PY' || { echo "Minara needs Python 3.11, 3.12 or 3.13 (set PYTHON=/path/to/python)" >&2; exit 1; }
import sys
sys.exit(not ((3, 11) <= sys.version_info[:2] <= (3, 13)))
PY

if [ ! -x "$venv/bin/python" ]; then
  echo "making $venv"
  "$python" -m venv "$venv"
fi
export VIRTUAL_ENV=$venv
uv=$venv/bin/uv
wanted=$(sed -nE 's/^uv==([^ ]+) .*/\1/p' requirements.lock)
if [ ! -x "$uv" ] || [ "$("$uv" --version | cut -d' ' -f2)" != "$wanted" ]; then
  pin=$(mktemp)
  trap 'rm -f "$pin"' EXIT
  awk '/^uv==/{on=1} on{print} on&&!/\\$/{exit}' requirements.lock > "$pin"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$pin" 2>/dev/null ||
    "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$pin"
fi
"$uv" pip sync --quiet --require-hashes requirements.lock
members=()
for project in libs/*/pyproject.toml services/*/pyproject.toml; do
  members+=(-e "$(dirname "$project")")
done
"$uv" pip install --quiet --no-deps --no-build-isolation "${members[@]}"
