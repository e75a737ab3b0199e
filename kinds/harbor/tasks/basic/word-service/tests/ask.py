import os
import time
import urllib.error
import urllib.request

deadline = time.monotonic() + 10  # for the service to answer at all


def ask(word):
    while time.monotonic() < deadline:
        ended = os.path.exists("/verifier/ended")  # looked at first: a service that went into the background answers still
        try:
            with urllib.request.urlopen("http://127.0.0.1:8080/count?word=" + word, timeout=5) as reply:
                return reply.read(64).strip()
        except urllib.error.HTTPError:
            return None
        except OSError:
            if ended:
                return None
            time.sleep(0.05)
    return None


want = {"tree": b"2", "BETTER": b"2", "miner": b"2", "seat": b"1", "owl": b"0", "is": b"3"}
right = all(ask(word) == count for word, count in want.items())
with open("/logs/verifier/reward.txt", "w") as f:
    f.write("%d\n" % right)
