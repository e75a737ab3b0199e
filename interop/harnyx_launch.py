"""Harnyx's validators, and its local evaluation, as they are, with another command in the
place of /usr/bin/docker.

The validator of the seed has the address of its models and the folder of its state
written into its code, the local evaluation that of a provider; these are put elsewhere too.
"""

import functools
import os
import sys

era = sys.argv.pop(1)  # caster (the seed's), harnyx (the newest) or local-eval

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
elif era == "local-eval":
    import harnyx_commons.llm.providers.openrouter as openrouter

    import harnyx_validator.infrastructure.http.local_tool_host as tool_host

    tool_host.start_local_tool_host = functools.partial(tool_host.start_local_tool_host, container_host="127.0.0.1")
    openrouter.OPENROUTER_BASE_URL = os.environ["MODELS_URL"] + "/v1"
    from harnyx_miner.local_eval import main
else:
    from harnyx_validator.server import main

main()
