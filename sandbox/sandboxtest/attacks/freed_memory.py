# Memory that another process has had is zero, also where a kernel keeps freed
# pages for the next one, or copies at a fork (gVisor, asked by this number).
import mmap
libc.prctl(0x41474F4E, 1, 0, 0, 0)
MIB = 1 << 20
mine = bytearray(b"mine" * (3 * MIB // 4))
short = "/tmp/short"
with open(short, "wb") as f: f.write(b"f" * 5000)
for i in range(40):
    size = (1 + i % 7) * MIB + 4096 * (i % 5)
    pid = os.fork()
    if pid == 0:
        if mine[:4] != b"mine" or mine.count(b"\xaa"): breach("a child does not see its parent's memory")
        m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); m.write(b"\xaa" * size)
        mine[:] = b"\xaa" * len(mine)
        os._exit(0)
    os.waitpid(pid, 0)
    if mine.count(b"\xaa"): breach("a child wrote its parent's memory", i)
    m = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if i % 2:
        for at in range(0, size, 3 * 4096): m[at] = 0
    if m[:].count(0) != size: breach("memory of another process", (i, size - m[:].count(0)))
    m.close()
    # one page at a time, apart from its neighbours and there at once
    for _ in range(50):
        m = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x8000, prot=7)
        if m[:].count(0) != 4096: breach("a page of another process", i)
    # the rest of a page of a file of which one byte is written
    for d in ("/tmp", "/dev/shm"):
        if not os.access(d, os.W_OK): continue
        with open(d + "/holes", "w+b") as f:
            for at in range(0, 50 * 8192, 8192): os.pwrite(f.fileno(), b"\0", at)
            got = os.pread(f.fileno(), 50 * 8192, 0)
            if got.count(0) != len(got): breach("another process's memory in a file", d)
        os.unlink(d + "/holes")
    # the rest of a file's last page, and of what is copied of it
    with open(short, "r+b") as f:
        p = mmap.mmap(f.fileno(), 5000, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        p[4999] = 1
        at = ctypes.addressof(ctypes.c_char.from_buffer(p))
        if ctypes.string_at(at, 8192)[5000:].count(0) != 8192 - 5000: breach("behind the end of a file", i)
end()
