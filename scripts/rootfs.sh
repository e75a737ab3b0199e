#!/bin/sh
# Builds the boxes' root file system, or does nothing if it is cached, and
# prints its directory. The work is done by `agon setup rootfs`; this is for
# machines and images that are prepared before agon is installed.
#
# usage: scripts/rootfs.sh [IMAGE]
#   IMAGE  OCI reference to flatten instead of running mmdebstrap
#   AGON_CACHE  cache directory (default /var/cache/agon as root, ~/.cache/agon otherwise)
set -eu
cd "$(dirname "$0")/.."
exec go run ./sandbox/rootfs/build "$@"
