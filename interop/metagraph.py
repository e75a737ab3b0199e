"""How long the SDK takes for a full metagraph: metagraph.py URL. Prints milliseconds as JSON."""
import json
import statistics
import sys
import time

import bittensor as bt

s = bt.Subtensor(network=sys.argv[1])
times = []
for _ in range(15):
    began = time.perf_counter()
    m = s.metagraph(1, lite=False)
    times.append(1000 * (time.perf_counter() - began))
assert m.n == 256 and m.W[1, 2] > 0, m.n
print(json.dumps({"median": statistics.median(times), "least": min(times)}))
