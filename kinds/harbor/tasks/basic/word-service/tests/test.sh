#!/bin/bash
# The service runs as the contestant's user, who cannot write the reward.
{ as-agent python3 serve.py >/dev/null 2>&1; : > /verifier/ended; } &
python3 -I /tests/ask.py
