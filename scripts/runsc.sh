#!/bin/sh
# Builds gVisor at the pinned version, or does nothing if it is cached, and
# prints its path. agon setup does the same; this is for images. With -all the paths of the
# programs beside it come after it: an image has no go tool to build those.
#
# usage: scripts/runsc.sh [-all]
#   AGON_CACHE  cache directory (default /var/cache/agon as root, ~/.cache/agon otherwise)
set -eu
cd "$(dirname "$0")/.."
exec go run ./sandbox/runsc/build "$@"
