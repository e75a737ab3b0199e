for n in range(1, 65):
    try: signal.signal(n, signal.SIG_IGN)
    except (OSError, ValueError): pass
for _ in range(4):
    if os.fork() == 0:
        os.setsid()
        os.fork()
        break
while True: time.sleep(1)
