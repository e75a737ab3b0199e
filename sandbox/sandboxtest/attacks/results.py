# Files that are not what a reader expects.
os.chdir("/work")
os.symlink("/etc/passwd", "link"); os.symlink("../../../../../etc/passwd", "up"); os.symlink("/proc/self/environ", "proc")
os.symlink("/", "root"); os.mkfifo("fifo"); os.mkdir("dir")
s = socket.socket(socket.AF_UNIX); s.bind("sock")
try:
    with open("sparse", "wb") as f: f.truncate(1 << 40)
except OSError:
    with open("sparse", "wb") as f: f.truncate(20 << 20)
refused("device", os.mknod, "dev", 0o60666, os.makedev(8, 0))
refused("char device", os.mknod, "mem", 0o20666, os.makedev(1, 1))
end()
