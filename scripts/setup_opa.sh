#!/usr/bin/env bash
# Puts OPA into .tools/bin (or the folder given): the one on PATH if it is new enough, else built by
# Go from its pinned module, else the official release if its checksum is known. No other engine.
#
#   OPA_SHA256       checksum of the release file for this platform; a download is never used unchecked
#   OPA_RELEASE_URL  folder that the release file is fetched from
set -euo pipefail
version=1.22.3
oldest=1.22.0
go_oldest=1.25
dest=${1:-"$(cd "$(dirname "$0")/.." && pwd)/.tools/bin"}

# Checksums of the release files opa_<platform> of $version. A platform without one is not downloaded.
pinned_sha256() {
  case $1 in
    *) echo "" ;;
  esac
}

new_enough() { # new_enough FOUND OLDEST
  [ -n "$1" ] && [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

version_of() { # version_of BINARY: its version, or nothing
  { "$1" version 2>/dev/null || true; } | sed -n 's/^Version: \([0-9][0-9.]*\).*/\1/p'
}

keep() { # keep FILE: make it the OPA of this repository if it runs and is new enough
  chmod +x "$1"
  new_enough "$(version_of "$1")" "$oldest" || return 1
  mv -f "$1" "$dest/opa"
  echo "OPA $(version_of "$dest/opa") is in $dest"
}

from_path() {
  found=$(type -P opa) || return 1
  new_enough "$(version_of "$found")" "$oldest" || return 1
  cp -f "$(readlink -f "$found")" "$scratch/opa"
  keep "$scratch/opa"
}

from_go() {
  type -P go >/dev/null || return 1
  new_enough "$(go env GOVERSION 2>/dev/null | sed 's/^go//; s/[^0-9.].*//')" "$go_oldest" || return 1
  echo "building OPA $version with Go; this takes a minute or two" >&2
  CGO_ENABLED=0 GOBIN="$scratch" go install -ldflags "-s -w" "github.com/open-policy-agent/opa@v$version" || return 1
  keep "$scratch/opa"
}

from_release() {
  case "$(uname -s) $(uname -m)" in
    "Linux x86_64") platform=linux_amd64_static ;;
    "Linux aarch64") platform=linux_arm64_static ;;
    "Darwin arm64") platform=darwin_arm64_static ;;
    *) why="there is no release file for $(uname -s) $(uname -m)"; return 1 ;;
  esac
  expected=${OPA_SHA256:-$(pinned_sha256 "$platform")}
  [ -n "$expected" ] || { why="no checksum is pinned for opa_$platform (set OPA_SHA256)"; return 1; }
  url=${OPA_RELEASE_URL:-https://github.com/open-policy-agent/opa/releases/download/v$version}/opa_$platform
  if type -P curl >/dev/null; then
    curl --fail --silent --show-error --location --max-time 300 --output "$scratch/opa" "$url" >&2 \
      || { why="$url cannot be fetched"; return 1; }
  else
    python3 -c 'import sys, urllib.request; urllib.request.urlretrieve(sys.argv[1], sys.argv[2])' "$url" "$scratch/opa" \
      || { why="$url cannot be fetched"; return 1; }
  fi
  actual=$({ sha256sum "$scratch/opa" 2>/dev/null || shasum -a 256 "$scratch/opa"; } | cut -d ' ' -f 1)
  [ "$actual" = "$expected" ] || { why="the checksum of $url is $actual, not $expected"; return 1; }
  keep "$scratch/opa" || { why="the release file does not run here"; return 1; }
}

mkdir -p "$dest"
if [ -x "$dest/opa" ] && new_enough "$(version_of "$dest/opa")" "$oldest"; then
  echo "OPA $(version_of "$dest/opa") is in $dest"
  exit 0
fi
scratch=$(mktemp -d "$dest/.opa.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
why=""
if from_path || from_go || from_release; then
  exit 0
fi
echo "OPA is not there: put opa $oldest or newer on PATH, or install Go $go_oldest or newer, and run this again; ${why:-the release was not tried}." >&2
exit 1
