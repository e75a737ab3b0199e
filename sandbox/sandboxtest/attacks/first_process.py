# The process that starts commands may not be read, stopped, slowed, steered or imitated.
# That of a bubblewrap box is of the same user as the commands, and is as far away.
import json, resource, select
refused("priority of the first process", os.setpriority, os.PRIO_PROCESS, 1, 19)
for who in (os.PRIO_PGRP, os.PRIO_USER):
    refused("priority of all processes", os.setpriority, who, 0, 19)
refused("processors of the first process", os.sched_setaffinity, 1, {0})
refused("limits of the first process", resource.prlimit, 1, resource.RLIMIT_NOFILE, (3, 3))
refused("limits of the first process", resource.prlimit, 1, resource.RLIMIT_AS, (1 << 20, 1 << 20))
for name in ("oom_score_adj", "oom_adj", "task/1/oom_score_adj", "timerslack_ns", "sched", "autogroup", "mem", "clear_refs", "coredump_filter", "comm"):
    try:
        with open("/proc/1/" + name, "r+b", buffering=0) as f:
            f.write(b"1")
            breach("its file " + name)
    except OSError: pass
# With a limit of 0 the host's helper for cores would run for each crash.
for soft in (0, 1 << 20):
    try: resource.setrlimit(resource.RLIMIT_CORE, (soft, soft))
    except (OSError, ValueError): pass
    try: resource.prlimit(os.getpid(), resource.RLIMIT_CORE, (soft, soft))
    except (OSError, ValueError): pass
if resource.getrlimit(resource.RLIMIT_CORE) != (1, 1): breach("limit of cores", resource.getrlimit(resource.RLIMIT_CORE))
if not os.path.exists("/.box/entry"):
    end(); sys.exit()
for fd in range(64):
    refused("descriptor of the first process", os.open, "/proc/1/fd/%d" % fd, os.O_RDWR)
for s in list(range(1, 65)):
    refused("signal to the first process", os.kill, 1, s)
try:
    p = os.pidfd_open(1)
    refused("signal by descriptor", signal.pidfd_send_signal, p, signal.SIGKILL)
except OSError: pass
refused("its program", open, "/.box/entry", "r+b")
# A copy of it is a process without a capability: it cannot change its user.
args = ["entry"] + open("/proc/1/cmdline").read().split("\0")[1:2] # with the filter
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    os.dup2(theirs.fileno(), 0); ours.close()
    os.execv("/.box/entry", args)
theirs.close(); ours.settimeout(10)
r, w = os.pipe()
ask = json.dumps({"ID": 1, "Op": "exec", "Args": ["/usr/bin/id", "-u"], "Env": [], "Dir": "/", "UID": 0, "GID": 0}).encode()
try:
    socket.send_fds(ours, [struct.pack(">I", len(ask))], [w, w, w])
    ours.sendall(ask)
    os.close(w); got = os.read(r, 100) if select.select([r], [], [], 10)[0] else b""
    if got.strip() == b"0": breach("uid 0 by a copy of the first process")
except OSError: pass
ours.close()
try: os.kill(pid, signal.SIGKILL)
except OSError: pass
end()
