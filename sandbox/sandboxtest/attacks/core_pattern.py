for p in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger", "/proc/sys/kernel/hostname",
    "/sys/kernel/uevent_helper", "/proc/self/attr/current"):
    try:
        fd = os.open(p, os.O_WRONLY)
    except OSError: continue
    try:
        if os.write(fd, b"x\n"): breach(p)
    except OSError: pass
end()
