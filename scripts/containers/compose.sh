#!/usr/bin/env bash
# compose.sh up [ARGS]     build the image, start all services, wait until they are healthy, say where
# compose.sh down [ARGS]   stop and remove the containers; volumes stay, unless ARGS has -v
# Secrets: from the shell, else from $MINARA_COMPOSE_ENV, by default ~/.minara/compose.env, where
# `up` makes those that are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
say() { printf '%s\n' "$*" >&2; }
file=${MINARA_COMPOSE_ENV:-$HOME/.minara/compose.env}
export MINARA_IMAGE=${MINARA_IMAGE:-minara:local}
export DOCKER_BUILDKIT=${DOCKER_BUILDKIT-1}

if docker compose version > /dev/null 2>&1; then
  compose=(docker compose)
elif command -v docker-compose > /dev/null; then
  compose=(docker-compose)
elif [ -x .venv/bin/docker-compose ]; then
  compose=(.venv/bin/docker-compose)
else
  compose=()
fi
if ! command -v docker > /dev/null || [ "${#compose[@]}" -eq 0 ]; then
  say "Minara in containers needs Docker with Compose: https://docs.docker.com/engine/install/"
  say "(Debian, Ubuntu: sudo apt-get install docker.io docker-compose). Without: make run"
  exit 1
fi
if ! docker version > /dev/null 2>&1; then
  say "the container engine does not answer: start Docker, or let your user use it, and try again"
  exit 1
fi
compose+=(--project-name "${MINARA_PROJECT:-minara}" --env-file "$file")

# Whatever is not in the file yet, and not in the shell, is made once: letters and digits only.
complete_secrets() {
  umask 077
  mkdir -p "$(dirname "$file")"
  touch "$file"
  local name made=()
  for name in MINARA_HTTP_TOKEN POSTGRES_PASSWORD ORCHESTRATOR_DATABASE_PASSWORD \
    TOOLS_DATABASE_PASSWORD SKILLS_DATABASE_PASSWORD WORKSPACE_DATABASE_PASSWORD \
    GATEWAY_DATABASE_PASSWORD; do
    if [ -z "${!name:-}" ] && ! grep -q "^$name=." "$file"; then
      printf '%s=%s\n' "$name" "$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')" >> "$file"
      made+=("$name")
    fi
  done
  [ "${#made[@]}" -eq 0 ] || say "made ${made[*]} in $file"
}

STATE='{{.State.Status}} {{if .State.Running}}{{with .State.Health}}{{.Status}}{{else}}healthy{{end}}{{else}}{{.State.ExitCode}}{{end}}'
STATE+=' {{index .Config.Labels "com.docker.compose.service"}}'

# Compose 1.29 has no --wait; this says the same of both.
wait_until_healthy() {
  local state waiting seconds=0
  while [ "$seconds" -lt "${MINARA_UP_SECONDS:-240}" ]; do
    waiting=""
    for id in $("${compose[@]}" ps --all -q); do
      state=$(docker inspect --format "$STATE" "$id")
      case $state in
        "running healthy "* | "exited 0 keys") ;;
        *) waiting+=" [$state]" ;;
      esac
    done
    [ -n "$waiting" ] || return 0
    sleep 1
    seconds=$((seconds + 1))
  done
  say "not healthy after $seconds s:$waiting"
  "${compose[@]}" logs --tail=20 >&2
  return 1
}

case ${1:-} in
  up)
    shift
    complete_secrets
    say "building $MINARA_IMAGE"
    docker build --quiet --build-arg BASE="${MINARA_BASE_IMAGE:-python:3.11-slim}" \
      ${MINARA_BUILD_ARGS:-} --tag "$MINARA_IMAGE" . > /dev/null
    "${compose[@]}" up --detach --no-build "$@"
    wait_until_healthy
    published=$("${compose[@]}" port gateway 8080)
    echo "serving http://$published"
    echo "token: MINARA_HTTP_TOKEN in $file, or what your shell set"
    ;;
  down)
    shift
    complete_secrets
    "${compose[@]}" down "$@"
    ;;
  *)
    say "compose.sh up|down [ARGS]"
    exit 2
    ;;
esac
