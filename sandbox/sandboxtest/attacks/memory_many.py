# Copies at a fork, where a kernel gives them (gVisor, asked by this number), count as well.
libc.prctl(0x41474F4E, 1, 0, 0, 0)
warm = bytearray(b"w" * (8 << 20))
for _ in range(20):
    if os.fork() == 0:
        b = bytearray(60 << 20)
        signal.pause()
os.wait()
os._exit(9)
