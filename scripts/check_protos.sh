#!/usr/bin/env bash
# Fails when the committed Python code of proto/ is not what generating it gives.
set -euo pipefail
cd "$(dirname "$0")/.."
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
scripts/generate_protos.sh "$fresh"
if ! diff -r -x __pycache__ libs/protos/src "$fresh"; then
  echo "libs/protos is not up to date: run make protos" >&2
  exit 1
fi
