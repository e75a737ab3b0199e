# Memory file systems count as memory or have a size.
for d in ("/dev/shm", "/tmp"):
    try:
        with open(d + "/x", "wb") as f:
            for _ in range(2000): f.write(bytes(1 << 20))
        breach("2 GB in " + d)
    except OSError: pass
end()
