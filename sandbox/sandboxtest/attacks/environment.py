allowed = {"PATH", "HOME", "PWD", "LC_CTYPE"}
if set(os.environ) - allowed: breach("environment", set(os.environ) - allowed)
if sorted(os.listdir("/proc/self/fd")) != ["0", "1", "2", "3"]: breach("descriptors", os.listdir("/proc/self/fd"))
if sum(p.isdigit() for p in os.listdir("/proc")) > 5: breach("processes", os.listdir("/proc"))
for p in ("/proc/self/mountinfo", "/proc/self/cgroup", "/proc/mounts", "/proc/self/environ"):
    try: text = open(p).read()
    except OSError: continue
    if "attack-secret" in text or "/root/" in text: breach(p, text)
    for word in sys.argv[2:]: # directories of the host, its boot and who built its kernel
        if word in text: breach(p, word)
for p in ("/proc/version", "/proc/sys/kernel/random/boot_id", "/proc/cmdline", "/proc/config.gz", "/proc/keys", "/proc/modules"):
    try: text = open(p, "rb").read(1 << 16).decode("latin1").strip()
    except OSError: continue
    if text and any(text in word or word in text for word in sys.argv[2:]): breach(p, text)
for p in ("/agon/secret", "/work/../agon/secret"):
    refused(p, open, p, "w")
end()
