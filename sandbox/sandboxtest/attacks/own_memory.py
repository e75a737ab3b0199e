# What a process writes to itself stays its own affair: it must not reach the file below.
with open("/usr/bin/python3", "rb") as f: before = f.read(4096)
try:
    with open("/proc/self/mem", "r+b", 0) as m:
        for l in open("/proc/self/maps"):
            if "python3" in l and "r-xp" in l:
                m.seek(int(l.split("-")[0], 16)); m.write(b"\x7fELF")
                break
except (OSError, ValueError): pass
with open("/usr/bin/python3", "rb") as f:
    if f.read(4096) != before: breach("wrote to the shared interpreter")
refused("write the interpreter", open, "/usr/bin/python3", "r+b")
os.kill(os.getpid(), 9)
