import mmap
pid = os.fork()
if pid == 0:
    r = libc.syscall(ctypes.c_long(0x40000000 + 39))
    if r > 0: breach("x32 call", r)
    os._exit(0)
os.waitpid(pid, 0)
pid = os.fork()
if pid == 0:
    m = mmap.mmap(-1, 4096, prot=7)
    m.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
    r = f()
    if r > 0: breach("32-bit call", r)
    os._exit(0)
os.waitpid(pid, 0)
end()
