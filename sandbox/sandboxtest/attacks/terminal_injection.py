import fcntl
for fd in (0, 1, 2):
    refused("TIOCSTI", fcntl.ioctl, fd, 0x5412, b"x")
    refused("TIOCLINUX", fcntl.ioctl, fd, 0x541c, b"\x02")
refused("tty", os.open, "/dev/tty", os.O_RDWR)
end()
