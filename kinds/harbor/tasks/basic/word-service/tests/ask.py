import time
import urllib.error
import urllib.request


def ask(word):
    for _ in range(100):
        try:
            with urllib.request.urlopen("http://127.0.0.1:8080/count?word=" + word, timeout=5) as reply:
                return reply.read(64).strip()
        except urllib.error.HTTPError:
            return None
        except OSError:
            time.sleep(0.1)
    return None


want = {"tree": b"2", "BETTER": b"2", "miner": b"2", "seat": b"1", "owl": b"0", "is": b"3"}
right = all(ask(word) == count for word, count in want.items())
with open("/logs/verifier/reward.txt", "w") as f:
    f.write("%d\n" % right)
