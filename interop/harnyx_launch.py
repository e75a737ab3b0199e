"""Harnyx's validator as it is, with another command in the place of /usr/bin/docker."""

import os

import harnyx_commons.sandbox.runtime as runtime

runtime.DOCKER_BINARY = os.environ["DOCKER_STANDIN"]

from harnyx_validator.server import main  # noqa: E402

main()
