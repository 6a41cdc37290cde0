#!/usr/bin/env bash
# Every static check. Each line prints what it checks, so that a failure names itself.
set -euo pipefail
bin=.venv/bin
say() { printf '\n== %s\n' "$1"; }

say "format";              $bin/ruff format --check --quiet .
say "lint";                $bin/ruff check --quiet .
say "protos";              $bin/buf lint && $bin/buf format --diff --exit-code
if [ -f proto/released.binpb ]; then
  say "wire compatibility"; $bin/buf breaking --against proto/released.binpb
fi
say "generated code";      $bin/python scripts/generate_protos.py --check
say "denials";             $bin/python scripts/generate_denials.py --check
say "import contracts";    $bin/lint-imports --no-cache | tail -n 12
say "sizes, glossary, house rules"; $bin/python -m pytest tests/architecture -q -p no:cacheprovider
say "types";               $bin/pyright --threads 2 | tail -n 40
say "all checks passed"
