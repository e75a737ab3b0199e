import fcntl
for d, dirs, files in os.walk("/"):
    if d.startswith(("/proc", "/sys")): dirs[:] = []; continue
    if "agon-covert-word" in files or "agon-victim-file" in files: breach("found", d)
if libc.shmget(0x61676f6e, 0, 0) >= 0: breach("shared memory")
if libc.msgget(0x61676f6e, 0) >= 0: breach("message queue")
if libc.semget(0x61676f6e, 0, 0) >= 0: breach("semaphore")
for p in ("/usr/bin/python3", "/etc/passwd", "/usr/bin/git"):
    try: fcntl.flock(open(p), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as e: breach("lock on " + p, e)
end()
