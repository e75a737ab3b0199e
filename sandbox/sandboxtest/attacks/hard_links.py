for p in ("/etc/passwd", "/etc/shadow", "/usr/bin/python3", "/proc/self/exe", "/agon/secret"):
    refused("link " + p, os.link, p, "/work/l")
end()
