#!/usr/bin/env bash
# Writes the Python code of proto/ into the folder given (default: libs/protos/src).
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-libs/protos/src}
export PATH="$PWD/.venv/bin:$PATH"
rm -rf "$out/memoryos"
mkdir -p "$out"
# shellcheck disable=SC2046
python -m grpc_tools.protoc -Iproto \
  --python_out="$out" --mypy_out="$out" --grpc_python_out="$out" --mypy_grpc_out="$out" \
  $(cd proto && find memoryos -name '*.proto' | sort)
# A file without a service has no stubs: grpc_tools writes an empty pair for it.
for file in $(cd proto && grep -rL '^service ' memoryos --include='*.proto'); do
  rm -f "$out/${file%.proto}_pb2_grpc.py" "$out/${file%.proto}_pb2_grpc.pyi"
done
touch "$out/memoryos/py.typed"
