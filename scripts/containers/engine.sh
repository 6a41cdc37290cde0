#!/usr/bin/env bash
# engine.sh ensure FOLDER   prints the DOCKER_HOST of a running engine; starts one of our own in
#                           FOLDER when there is none, from Debian's packages
# engine.sh stop FOLDER     ends the engine that `ensure` started there, and removes FOLDER
set -euo pipefail
folder=$(realpath -m "${2:?a folder outside the repository}")
say() { printf '%s\n' "$*" >&2; }

running() { timeout 10 docker version > /dev/null 2>&1; }

install_packages() {
  if [ ! -r /etc/debian_version ] || [ "$(id -u)" -ne 0 ]; then
    say "no container engine runs here, and only as root on Debian or Ubuntu can this script install"
    say "one: install Docker (https://docs.docker.com/engine/install/), start it, and try again"
    exit 1
  fi
  local missing=()
  [ -x /usr/sbin/dockerd ] || missing+=(docker.io)
  command -v debootstrap > /dev/null || missing+=(debootstrap)
  command -v iptables > /dev/null || missing+=(iptables)
  [ "${#missing[@]}" -gt 0 ] || return 0
  say "installing ${missing[*]}: the container tests need an engine"
  export DEBIAN_FRONTEND=noninteractive
  # Installing must not start a daemon: ours runs in a folder of its own and goes with it.
  local policy=/usr/sbin/policy-rc.d made=""
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy" && made=yes
  fi
  apt-get update -qq >&2
  apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-unsafe-io \
    "${missing[@]}" > /dev/null
  [ -z "$made" ] || rm -f "$policy"
}

start_own() {
  mkdir -p "$folder/data" "$folder/exec"
  export DOCKER_HOST=unix://$folder/docker.sock
  say "starting a container engine in $folder"
  # Without iptables nothing of this machine's network changes; the userland proxy publishes ports.
  setsid /usr/sbin/dockerd --host="$DOCKER_HOST" --data-root="$folder/data" \
    --exec-root="$folder/exec" --pidfile="$folder/docker.pid" \
    --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
    --userland-proxy=true --bip=172.29.0.1/24 \
    --default-address-pool base=172.30.0.0/16,size=24 \
    > "$folder/log" 2>&1 < /dev/null &
  local waited=0
  until running; do
    sleep 0.2
    waited=$((waited + 1))
    if [ "$waited" -gt 150 ]; then
      say "the engine did not start:"
      tail -n 20 "$folder/log" >&2
      exit 1
    fi
  done
}

ensure() {
  if running; then
    echo "${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}')}"
    return
  fi
  install_packages
  start_own
  echo "$DOCKER_HOST"
}

stop() {
  [ -s "$folder/docker.pid" ] || { rm -rf "$folder"; return; }
  local pid
  pid=$(cat "$folder/docker.pid")
  kill "$pid" 2> /dev/null || true
  for _ in $(seq 100); do
    kill -0 "$pid" 2> /dev/null || break
    sleep 0.2
  done
  local mounted
  for mounted in $(awk -v under="$folder/" 'index($2, under) == 1 { print $2 }' /proc/mounts); do
    umount "$mounted" 2> /dev/null || umount --lazy "$mounted" 2> /dev/null || true
  done
  ip link del docker0 2> /dev/null || true
  rm -rf "$folder"
}

case ${1:-} in
  ensure) ensure ;;
  stop) stop ;;
  *) say "engine.sh ensure|stop FOLDER"; exit 2 ;;
esac
