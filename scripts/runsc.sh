#!/bin/sh
# Builds gVisor at the pinned version, or does nothing if it is cached, and
# prints its path. agon setup does the same; this is for images.
#
# usage: scripts/runsc.sh
#   AGON_CACHE  cache directory (default /var/cache/agon as root, ~/.cache/agon otherwise)
set -eu
cd "$(dirname "$0")/.."
exec go run ./sandbox/runsc/build
