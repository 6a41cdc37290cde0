#!/usr/bin/env bash
# Run by the postgres image when its volume is new: one role a service, which owns its databases and
# can connect to no others. Whoever could write to the gateway's database could let themselves in.
( # a shell of its own, since an image may source this file into its entrypoint
  set -euo pipefail

  asked() { # asked NAME=VALUE... < SQL, with the values as variables of psql
    local variables=() pair
    for pair in "$@"; do variables+=(--set "$pair"); done
    psql --quiet --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres \
      "${variables[@]}"
  }

  own() { # own ROLE PASSWORD DATABASE...
    local role=$1 password=$2 database
    shift 2
    asked role="$role" password="$password" << 'SQL'
CREATE ROLE :"role" LOGIN PASSWORD :'password';
SQL
    for database in "$@"; do
      asked role="$role" database="$database" << 'SQL'
CREATE DATABASE :"database" OWNER :"role" TEMPLATE template0 ENCODING 'UTF8';
REVOKE CONNECT, TEMPORARY ON DATABASE :"database" FROM PUBLIC;
SQL
    done
  }

  own orchestrator "${ORCHESTRATOR_DATABASE_PASSWORD:?}" orchestrator
  own tools "${TOOLS_DATABASE_PASSWORD:?}" tools paper
  own skills "${SKILLS_DATABASE_PASSWORD:?}" skills
  own workspace "${WORKSPACE_DATABASE_PASSWORD:?}" workspace
  own gateway "${GATEWAY_DATABASE_PASSWORD:?}" gateway
  asked << 'SQL'
REVOKE CONNECT ON DATABASE postgres, template1 FROM PUBLIC;
SQL
)
