#!/usr/bin/env bash
# images.sh FOLDER   builds minara:test and makes sure that there is a PostgreSQL image; prints
#                    MINARA_IMAGE=... and POSTGRES_IMAGE=... lines for the caller to read.
# Base images come from their registry; where that is not reached, from Debian's packages.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(realpath -m "${1:?a scratch folder outside the repository}")
say() { printf '%s\n' "$*" >&2; }

has() { docker image inspect "$1" > /dev/null 2>&1; }
reached() { has "$1" || timeout 120 docker pull --quiet "$1" > /dev/null 2>&1; }

# Debian itself, with Python: what the Dockerfile needs of a base image, and no more.
debian_base() {
  has "$1" && return
  say "no registry is reached: making a base image from Debian's packages"
  command -v debootstrap > /dev/null || { say "install debootstrap first"; exit 1; }
  local root=$folder/rootfs
  mkdir -p "$root"
  # In memory: the package installer waits for the disk after every file.
  mount -t tmpfs -o size=2g,mode=0755 minara-rootfs "$root" 2> /dev/null || true
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$root" \
    > "$folder/debootstrap.log" 2>&1 || { tail -n 20 "$folder/debootstrap.log" >&2; exit 1; }
  # Whom this machine trusts, the image trusts: packages may come through a mirror.
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* \
    "$root"/usr/share/{doc,man,locale}/*
  tar -C "$root" -c . | docker import \
    --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
    --change 'ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt' \
    --change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt' \
    --change 'CMD ["python3"]' - "$1" > /dev/null
  umount "$root" 2> /dev/null || true
  rm -rf "$root"
}

# BuildKit where the engine has it; the host's network, since our own engine routes nothing.
build() {
  local log
  log=$(mktemp)
  if ! docker build --network=host --quiet "$@" > "$log" 2>&1; then
    cat "$log" >&2
    rm -f "$log"
    return 1
  fi
  rm -f "$log"
}

base=python:3.11-slim
if ! reached "$base"; then
  base=minara-base:bookworm
  debian_base "$base"
fi
postgres=postgres:15
if ! reached "$postgres"; then
  postgres=minara-postgres:bookworm
  build --build-arg BASE="$base" --tag "$postgres" --file scripts/containers/postgres.Dockerfile \
    scripts/containers &
  building=$!
fi
build --build-arg BASE="$base" --tag minara:test .
[ -z "${building:-}" ] || wait "$building"
echo "MINARA_IMAGE=minara:test"
echo "POSTGRES_IMAGE=$postgres"
