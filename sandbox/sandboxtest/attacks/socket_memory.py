# The kernel's memory behind sockets must count as the box's. Bounded: it gives up
# at twice the box's memory, so that it does not endanger a host that fails it.
memory = 128 << 20
held, total = [], 0
def much(): return total > 2 * memory
def grow(s):
    for what in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        try: s.setsockopt(socket.SOL_SOCKET, what, 1 << 30)
        except OSError: pass
    return s
def fill(s):
    global total
    s.setblocking(False)
    try:
        while not much(): total += s.send(b"x" * 65536)
    except OSError: pass
def verdict(what):
    print(what, total, flush=True)
    if much():
        time.sleep(2) # what is counted now and then ends it meanwhile
        breach(what, total)
# Connections whose data nobody reads.
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    try:
        l = socket.socket(family); l.bind((host, 0)); l.listen(100); held.append(l)
        while not much():
            a = grow(socket.socket(family)); a.settimeout(2); a.connect(l.getsockname()); b = grow(l.accept()[0])
            held += [a, b]
            fill(a); fill(b)
    except OSError as e: print("stopped", e)
verdict("accepted")
held.clear(); total = 0
# Datagrams whose data nobody reads. The sender learns nothing of what was dropped.
try:
    for _ in range(400):
        b = grow(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)); b.bind(("127.0.0.1", 0))
        a = grow(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)); a.connect(b.getsockname()); a.setblocking(False)
        held += [a, b]
        for _ in range(200): a.send(b"x" * 60000)
except OSError as e: print("stopped", e)
try: total = sum(int(l.split()[4].split(":")[1], 16) for l in open("/proc/net/udp").read().splitlines()[1:])
except (OSError, IndexError): pass
verdict("datagrams")
held.clear(); total = 0
# Connections that nobody accepts, whose senders are gone: they are charged to no group.
try:
    while not much():
        l = grow(socket.socket()); l.bind(("127.0.0.1", 0)); l.listen(4096); held.append(l)
        for _ in range(250):
            a = grow(socket.socket()); a.settimeout(0.5); a.connect(l.getsockname())
            fill(a); a.close()
            if much(): break
except OSError as e: print("stopped", e)
verdict("unaccepted")
