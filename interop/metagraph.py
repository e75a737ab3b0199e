"""How long the SDK takes for a full metagraph: metagraph.py URL. Prints milliseconds
as JSON; cpu is what the SDK itself works, without the node and without waiting."""
import json
import statistics
import sys
import time

import bittensor as bt

s = bt.Subtensor(network=sys.argv[1])
times, work = [], []
for _ in range(8):
    began, cpu = time.perf_counter(), time.process_time()
    m = s.metagraph(1, lite=False)
    times.append(1000 * (time.perf_counter() - began))
    work.append(1000 * (time.process_time() - cpu))
assert m.n == 256 and m.W[1, 2] > 0, m.n
print(json.dumps({"median": statistics.median(times), "least": min(times), "cpu": min(work)}))
