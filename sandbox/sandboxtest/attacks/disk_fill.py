n = 0
try:
    for i in range(100):
        with open("/work/f%d" % i, "wb") as f:
            for _ in range(20): f.write(bytes(1 << 20)); n += 1
    breach("2 GB on disk")
except OSError: pass
if n > 64: breach("MiB", n)
for d in ("/", "/usr", "/etc", "/var/tmp", "/root", "/home", "/opt"): refused("write " + d, lambda: open(d + "/x", "w"))
end()
