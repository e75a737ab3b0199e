pids = [int(p) for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()]
b = ctypes.create_string_buffer(64)
for p in pids + [1]:
    st = None
    try: st = os.stat("/proc/%d" % p)
    except OSError: pass
    if st is None or st.st_uid == os.getuid(): continue
    for f in ("mem", "environ", "maps", "fd", "root", "cwd", "exe"):
        path = "/proc/%d/%s" % (p, f)
        try:
            if f in ("fd", "root"): got = os.listdir(path)
            elif f in ("cwd", "exe"): got = os.readlink(path)
            else: got = os.read(os.open(path, os.O_RDWR if f == "mem" else os.O_RDONLY), 10)
            if got: breach(path, got)
        except OSError: pass
    call("process_vm_readv", 310, p, b, 0, b, 0, 0)
    call("process_vm_writev", 311, p, b, 0, b, 0, 0)
    call("pidfd_getfd", 438, 0, 0, 0)
end()
