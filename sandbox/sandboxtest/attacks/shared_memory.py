held = 0
for i in range(100):
    k = libc.shmget(0, 64 << 20, 0o1666)
    if k < 0: break
    libc.shmat.restype = ctypes.c_void_p
    p = libc.shmat(k, None, 0)
    if p in (None, ctypes.c_void_p(-1).value): break
    ctypes.memset(p, 1, 64 << 20); held += 64
if held > 512: breach("MiB shared", held)
end()
