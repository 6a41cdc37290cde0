#!/usr/bin/env bash
# The suites run against a real PostgreSQL server, which they start themselves in a temporary
# folder. This installs the server's programs from Debian when there are none.
set -euo pipefail

if compgen -G '/usr/lib/postgresql/*/bin/initdb' > /dev/null || command -v initdb > /dev/null; then
  exit 0
fi
if [ ! -r /etc/debian_version ] || ! command -v apt-get > /dev/null || [ "$(id -u)" -ne 0 ]; then
  cat >&2 << 'TEXT'
The tests need a PostgreSQL server (15 or newer), and this script installs it only as root on Debian
or Ubuntu. Please install it by hand, so that initdb is on the PATH or in /usr/lib/postgresql/*/bin:
  Debian, Ubuntu   sudo apt-get install postgresql
  Fedora           sudo dnf install postgresql-server
  macOS            brew install postgresql
TEXT
  exit 1
fi

echo "installing postgresql: the tests start a throwaway server of their own"
# Debian would make and start a cluster for us; nobody here wants that one.
mkdir -p /etc/postgresql-common
if [ ! -e /etc/postgresql-common/createcluster.conf ]; then
  echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends postgresql > /dev/null
