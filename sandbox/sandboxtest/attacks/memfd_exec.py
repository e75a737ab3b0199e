fd = os.memfd_create("x")
os.write(fd, b"#!/bin/sh\nid -u\n")
try:
    out = subprocess.run(["/proc/self/fd/%d" % fd], pass_fds=(fd,), capture_output=True, text=True).stdout.strip()
    if out not in ("", "1000"): breach("uid", out)
except OSError: pass
call("memfd_secret", 447, 0)
end()
