"""Draws what plants of pumps have logged: the same seed gives the same log. Numbers
hang on each other as in the real thing, and nobody can know them before the seed
is: they come from SHA-256 over it, which no log can be traced back through."""
import hashlib

LINES, PLANTS = 480, 4


class Draw:
    """A stream of random integers below a bound, from a seed."""

    def __init__(self, seed):
        self.seed, self.n, self.pool = str(seed).encode(), 0, b""

    def below(self, n):
        if len(self.pool) < 4:
            self.pool = hashlib.sha256(self.seed + b" %d" % self.n).digest()
            self.n += 1
        x, self.pool = int.from_bytes(self.pool[:4], "big"), self.pool[4:]
        return x % n

    def bell(self, width):
        """An integer around 0, about as wide as width."""
        return (sum(self.below(width + 1) for _ in range(4)) - 2 * width) // 2


def log(seed, plant):
    d = Draw(f"{seed} plant {plant}")
    names = ["".join("bcdfgklmnprstvz"[d.below(15)] + "aeiou"[d.below(5)] for _ in range(2)) + f"{plant}{i}" for i in range(6)]
    plant = [{"base": 450 + d.below(200), "slope": 2 + d.below(5), "load": 0, "heat": 0, "total": d.below(10**6), "on": 1} for _ in names]
    clock, weather, trend, out = 1_700_000_000 + d.below(10**7), 0, 0, []
    order = list(range(len(names)))
    for i in range(LINES):
        if i % len(names) == 0:  # a round of all pumps, in an order that changes now and then
            trend = trend * 9 // 10 + d.bell(3)
            weather += trend
            weather -= weather // 50
            if d.below(20) == 0:
                a, b = d.below(len(order)), d.below(len(order))
                order[a], order[b] = order[b], order[a]
            clock += 60 - (len(names) - 1) * 2 + d.below(3)
        else:
            clock += 2
        k = order[i % len(names)]
        p = plant[k]
        if d.below(40) == 0:
            p["on"] ^= 1
        p["load"] += ((p["base"] if p["on"] else 0) - p["load"]) // 3 + d.bell(4)
        p["heat"] += (p["load"] // 4 + weather - p["heat"]) // 5 + d.bell(1)
        press = 10_000 + p["slope"] * p["load"] - p["heat"] // 2 + d.bell(2)
        p["total"] += max(p["load"], 0)
        body = f"{clock} {names[k]} {'on' if p['on'] else 'off'} load={p['load']} heat={p['heat'] / 10:.1f} press={press} total={p['total']}"
        out.append(f"{body} sum={sum(body.encode()) * 31 % 997}")
    return "\n".join(out) + "\n"


def logs(seed):
    """The logs of all plants, one behind the other."""
    return "".join(log(seed, i) for i in range(PLANTS)).encode("ascii")
