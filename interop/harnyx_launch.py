"""Harnyx's validators as they are, with another command in the place of /usr/bin/docker.

The one of the seed has the address of its models and the folder of its state written
into its code; both are put elsewhere too.
"""

import os
import sys

era = sys.argv.pop(1)  # caster (the seed's) or harnyx (the newest)

if era == "caster":
    import caster_commons.clients as clients
    import caster_commons.sandbox.runtime as runtime
    import caster_commons.sandbox.state as state

    clients.CHUTES = clients.ChutesDefaults(base_url=os.environ["MODELS_URL"])
    state.DEFAULT_STATE_DIR = os.environ["VALIDATOR_STATE_DIR"]
else:
    import harnyx_commons.sandbox.runtime as runtime

runtime.DOCKER_BINARY = os.environ["DOCKER_STANDIN"]

if era == "caster":
    from caster_validator.server import main
else:
    from harnyx_validator.server import main

main()
