#!/usr/bin/env bash
# Makes the cluster on first use, runs the init scripts on a server that nobody else can reach, then
# becomes the server.
set -euo pipefail
export POSTGRES_USER=${POSTGRES_USER:-postgres}
export POSTGRES_DB=${POSTGRES_DB:-$POSTGRES_USER}
sockets=/var/run/postgresql

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  : "${POSTGRES_PASSWORD:?set a password for the superuser}"
  # A cluster that is only half made would look whole at the next start.
  trap 'find "$PGDATA" -mindepth 1 -delete' EXIT
  initdb --username="$POSTGRES_USER" --pwfile=<(printf '%s\n' "$POSTGRES_PASSWORD") \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 > /dev/null
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl --wait --silent -o "-c listen_addresses='' -c unix_socket_directories=$sockets" start
  if [ "$POSTGRES_DB" != postgres ]; then
    createdb --host="$sockets" --username="$POSTGRES_USER" "$POSTGRES_DB"
  fi
  for script in /docker-entrypoint-initdb.d/*.sh; do
    [ ! -e "$script" ] || bash "$script"
  done
  pg_ctl --wait --silent --mode=fast stop
  trap - EXIT
  echo 'PostgreSQL init process complete; ready for start up.'
fi
[ "${1:-postgres}" = postgres ] || exec "$@"
shift || true
exec postgres -c listen_addresses='*' -c unix_socket_directories="$sockets" "$@"
