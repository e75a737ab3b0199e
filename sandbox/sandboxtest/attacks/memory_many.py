for _ in range(20):
    if os.fork() == 0:
        b = bytearray(60 << 20)
        signal.pause()
os.wait()
os._exit(9)
