for n in [n for n in range(3, 46) if n != 10]:
    for k in (1, 2, 3, 5):
        try: socket.socket(n, k, 0); breach("socket family %d type %d" % (n, k))
        except OSError: pass
for k, p in ((3, 1), (3, 255), (2, 1), (1, 132), (2, 136), (1, 262)):
    try: socket.socket(2, k, p); breach("inet type %d protocol %d" % (k, p))
    except OSError: pass
end()
