held = []
for i in range(20000):
    fd = libc.inotify_init1(0)
    if fd < 0: break
    held.append(fd)
if len(held) > 5000: breach("inotify instances", len(held))
for fd in held[4:]: os.close(fd)
for i in range(200000):
    p = b"/work/w%d" % (i % 50)
    if i < 50: open(p, "w").close()
    if libc.inotify_add_watch(held[i % 4], p, 0xfff) < 0: break
end()
