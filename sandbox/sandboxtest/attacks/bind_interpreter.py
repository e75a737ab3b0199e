# Code that runs in the next command, the next box, or for somebody else.
for p in ("/usr/lib/python3/dist-packages/sitecustomize.py", "/usr/local/lib/evil.pth", "/etc/ld.so.preload", "/etc/profile.d/x.sh", "/etc/passwd", "/usr/bin/git",
    "/etc/gitconfig", "/bin/sh", "/etc/hosts", "/etc/resolv.conf"):
    refused(p, open, p, "a")
end()
