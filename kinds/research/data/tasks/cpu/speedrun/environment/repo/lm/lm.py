"""Learns a text and codes another one: mixed counts of up to four characters, and
an arithmetic coder. Reads standard input, writes standard output."""
import sys

ORDER, TOP = 4, 1 << 16
LETTERS = "\n" + "".join(map(chr, range(32, 127)))


def learn(text):
    tables = [{} for _ in range(ORDER + 1)]
    for i, c in enumerate(text):
        for k in range(min(ORDER, i) + 1):
            entry = tables[k].setdefault(text[i - k : i], {})
            entry[c] = entry.get(c, 0) + 1
    return tables


def frequencies(tables, before):
    """How often each letter is expected, of TOP: longer contexts weigh more."""
    p = [1 / len(LETTERS)] * len(LETTERS)
    for k in range(ORDER + 1):
        entry = tables[k].get(before[len(before) - k :]) if k else tables[0].get("")
        if entry is None:
            break
        total, kinds = sum(entry.values()), len(entry)
        p = [x * kinds / (total + kinds) for x in p]
        for c, n in entry.items():
            p[LETTERS.index(c)] += n / (total + kinds)
    return [1 + int(x * (TOP - len(LETTERS))) for x in p]


def encode(tables, text):
    low, high, pending, bits = 0, (1 << 32) - 1, 0, []
    before = ""
    for c in text:
        f = frequencies(tables, before)
        at = LETTERS.index(c)
        below, span, total = sum(f[:at]), high - low + 1, sum(f)
        low, high = low + span * below // total, low + span * (below + f[at]) // total - 1
        while True:
            if high < 1 << 31 or low >= 1 << 31:
                bit = low >> 31
                bits.append(bit)
                bits += [1 - bit] * pending
                pending = 0
            elif low >= 1 << 30 and high < 3 << 30:
                pending += 1
                low, high = low - (1 << 30), high - (1 << 30)
            else:
                break
            low, high = low << 1 & 0xFFFFFFFF, high << 1 & 0xFFFFFFFF | 1
        before = (before + c)[-ORDER:]
    bit = int(low >= 1 << 30)
    bits += [bit] + [1 - bit] * (pending + 1)
    bits += [0] * (-len(bits) % 8)
    return bytes(int("".join(map(str, bits[i : i + 8])), 2) for i in range(0, len(bits), 8))


def decode(tables, code, size):
    bits = [b >> i & 1 for b in code for i in range(7, -1, -1)] + [0] * 64
    value, at = int("".join(map(str, bits[:32])), 2), 32
    low, high, out, before = 0, (1 << 32) - 1, [], ""
    while len(out) < size:
        f = frequencies(tables, before)
        span, total = high - low + 1, sum(f)
        want, below, i = ((value - low + 1) * total - 1) // span, 0, 0
        while below + f[i] <= want:
            below, i = below + f[i], i + 1
        low, high = low + span * below // total, low + span * (below + f[i]) // total - 1
        while True:
            if high < 1 << 31 or low >= 1 << 31:
                pass
            elif low >= 1 << 30 and high < 3 << 30:
                low, high, value = low - (1 << 30), high - (1 << 30), value - (1 << 30)
            else:
                break
            low, high = low << 1 & 0xFFFFFFFF, high << 1 & 0xFFFFFFFF | 1
            value, at = value << 1 & 0xFFFFFFFF | (bits[at] if at < len(bits) else 0), at + 1
        out.append(LETTERS[i])
        before = (before + LETTERS[i])[-ORDER:]
    return "".join(out)


def main():
    data = sys.stdin.buffer.read()
    cut = 4 + int.from_bytes(data[:4], "big")
    tables = learn(data[4:cut].decode("ascii"))
    if sys.argv[1] == "encode":
        sys.stdout.buffer.write(encode(tables, data[cut:].decode("ascii")))
    else:
        size = int.from_bytes(data[cut : cut + 4], "big")
        sys.stdout.write(decode(tables, data[cut + 4 :], size))


if __name__ == "__main__":
    main()
