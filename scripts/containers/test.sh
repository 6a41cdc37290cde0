#!/usr/bin/env bash
# The container tests: an engine, the images, the suites; and nothing of it stays, also on failure.
# Uses the engine that runs (DOCKER_HOST), else starts one of its own outside the repository.
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { printf '\n== %s (%s s)\n' "$1" "$SECONDS"; }
bin=$PWD/.venv/bin
scratch=$(mktemp -d "${TMPDIR:-/tmp}/minara-containers.XXXXXX")
log=$scratch/postgres.log

clean_up() {
  local code=$?
  [ -z "${store_tests:-}" ] || kill "$store_tests" 2> /dev/null || true
  if [ -n "${DOCKER_HOST:-}" ]; then
    docker rm --force --volumes minara-test-contracts > /dev/null 2>&1 || true
    PYTHONPATH=tests "$bin/python" -c \
      'from support.compose import ComposeProject as C; C.here().down()' > /dev/null 2>&1 || true
  fi
  bash scripts/containers/engine.sh stop "$scratch" || say "could not remove $scratch"
  exit "$code"
}
trap clean_up EXIT

# Debian's client first: another one on the PATH may lack what it builds with.
[ ! -x /usr/bin/docker ] || export PATH=/usr/bin:$PATH
say "engine"
DOCKER_HOST=$(bash scripts/containers/engine.sh ensure "$scratch")
export DOCKER_HOST PATH=/usr/bin:$PATH
docker version --format 'Docker {{.Server.Version}} at '"$DOCKER_HOST"

say "images"
export DOCKER_BUILDKIT=1
images=$(bash scripts/containers/images.sh "$scratch")
while IFS='=' read -r name value; do export "$name=$value"; done <<< "$images"
docker images --format '{{.Repository}}:{{.Tag}} {{.Size}}' | grep -e minara -e postgres

say "suites: store contracts in the background, compose here"
# The reaper's image is in no registry that is reached here; published ports are on localhost.
export TESTCONTAINERS_RYUK_DISABLED=true TESTCONTAINERS_CONNECTION_MODE=docker_host
"$bin/python" -m pytest tests/containers/test_postgres_image.py -q > "$log" 2>&1 &
store_tests=$!
"$bin/python" -m pytest tests/containers --ignore=tests/containers/test_postgres_image.py \
  --keep-project --durations=5 -q "$@"

say "the e2e suite under compose"
"$bin/python" -m pytest tests/e2e --deployments compose -q

code=0
wait "$store_tests" || code=$?
store_tests=""
say "store contracts on a PostgreSQL container"
cat "$log"
[ "$code" -eq 0 ] || exit "$code"

"$bin/python" scripts/containers/inputs.py --write
say "not started here: profile observability (its images are not built from this repository)"
say "all container tests passed"
