"""Twenty-two kernels, each the plain way: what entries are compared with."""


def matmul(d):
    a, b = d["a"], d["b"]
    n, m, p = len(a), len(b), len(b[0])
    return [[sum(a[i][k] * b[k][j] for k in range(m)) for j in range(p)] for i in range(n)]


def convolve(d):
    a, b = d["a"], d["b"]
    out = [0] * (len(a) + len(b) - 1)
    for i in range(len(a)):
        for j in range(len(b)):
            out[i + j] += a[i] * b[j]
    return out


def primes(d):
    found = []
    for n in range(2, d["limit"]):
        if all(n % p for p in found if p * p <= n):
            found.append(n)
    return [len(found), found[-1]]


def levenshtein(d):
    a, b = d["a"], d["b"]
    t = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if not i or not j:
                t[i][j] = i + j
            else:
                t[i][j] = min(t[i - 1][j] + 1, t[i][j - 1] + 1, t[i - 1][j - 1] + (a[i - 1] != b[j - 1]))
    return t[-1][-1]


def subsequence(d):
    a, b = d["a"], d["b"]
    t = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            t[i][j] = t[i - 1][j - 1] + 1 if a[i - 1] == b[j - 1] else max(t[i - 1][j], t[i][j - 1])
    return t[-1][-1]


def knapsack(d):
    t = [[0] * (d["room"] + 1) for _ in range(len(d["weights"]) + 1)]
    for i, (w, v) in enumerate(zip(d["weights"], d["values"]), 1):
        for r in range(d["room"] + 1):
            t[i][r] = max(t[i - 1][r], t[i - 1][r - w] + v if w <= r else 0)
    return t[-1][-1]


def all_paths(d):
    w = [row[:] for row in d["weights"]]
    n = len(w)
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if w[i][k] + w[k][j] < w[i][j]:
                    w[i][j] = w[i][k] + w[k][j]
    return w


def one_path(d):
    far = 10**9
    n = d["n"]
    best, done = [far] * n, [False] * n
    best[0] = 0
    for _ in range(n):
        u = min((i for i in range(n) if not done[i]), key=lambda i: best[i])
        done[u] = True
        for x, y, w in d["edges"]:
            if x == u and best[u] + w < best[y]:
                best[y] = best[u] + w
    return best


def inversions(d):
    a = d["a"]
    return sum(a[i] > a[j] for i in range(len(a)) for j in range(i + 1, len(a)))


def sliding_max(d):
    a, k = d["a"], d["k"]
    return [max(a[i:i + k]) for i in range(len(a) - k + 1)]


def subset_sums(d):
    sums = {0}
    for x in d["a"]:
        sums = sums | {s + x for s in sums if s + x <= d["limit"]}
    return [len(sums), max(sums)]


def words(d):
    n, s, count = d["k"], d["text"], {}
    for i in range(len(s) - n + 1):
        w = ""
        for j in range(n):
            w += s[i + j]
        count[w] = count.get(w, 0) + 1
    return sorted(count.items(), key=lambda x: (-x[1], x[0]))[:20]


def queens(d):
    n = d["n"]

    def place(row, cols):
        if row == n:
            return 1
        return sum(place(row + 1, cols + [c]) for c in range(n) if all(c != x and abs(c - x) != row - r for r, x in enumerate(cols)))

    return place(0, [])


def life(d):
    g = d["grid"]
    n, m = len(g), len(g[0])
    for _ in range(d["steps"]):
        new = [[0] * m for _ in range(n)]
        for i in range(n):
            for j in range(m):
                near = sum(g[(i + x) % n][(j + y) % m] for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y)
                new[i][j] = int(near == 3 or g[i][j] and near == 2)
        g = new
    return g


def closest(d):
    p = d["points"]
    return min((p[i][0] - p[j][0]) ** 2 + (p[i][1] - p[j][1]) ** 2 for i in range(len(p)) for j in range(i))


def fourier(d):
    from cmath import exp, pi

    a = d["a"]
    n = len(a)
    out = [sum(a[k] * exp(-2j * pi * i * k / n) for k in range(n)) for i in range(n)]
    return [[x.real, x.imag] for x in out]


def determinant(d):
    from fractions import Fraction

    m = [[Fraction(x) for x in row] for row in d["a"]]
    n, det = len(m), Fraction(1)
    for i in range(n):
        p = next((r for r in range(i, n) if m[r][i]), None)
        if p is None:
            return 0
        if p != i:
            m[i], m[p], det = m[p], m[i], -det
        det *= m[i][i]
        for r in range(i + 1, n):
            f = m[r][i] / m[i][i]
            for c in range(i, n):
                m[r][c] -= f * m[i][c]
    return int(det)


def occurrences(d):
    s, out = d["text"], []
    for w in d["words"]:
        out.append(sum(all(s[i + j] == w[j] for j in range(len(w))) for i in range(len(s) - len(w) + 1)))
    return out


def range_sums(d):
    return [sum(d["a"][x:y]) for x, y in d["queries"]]


def pairs(d):
    a, want = d["a"], d["sum"]
    return sum(a[i] + a[j] == want for i in range(len(a)) for j in range(i))


def evaluate(d):
    return [sum(c * x**i for i, c in enumerate(d["c"])) % d["mod"] for x in d["x"]]


def parts(d):
    n, m = d["n"], d["mod"]
    t = [[0] * (n + 1) for _ in range(n + 1)]
    for k in range(n + 1):
        t[0][k] = 1
    for i in range(1, n + 1):
        for k in range(1, n + 1):
            t[i][k] = (t[i][k - 1] + (t[i - k][k] if i >= k else 0)) % m
    return t[n][n]
