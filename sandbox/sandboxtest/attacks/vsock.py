for cid in (0, 1, 2, 3, 0xffffffff):
    def f():
        s = socket.socket(40, 1); s.settimeout(2); s.connect((cid, 1024))
    refused("vsock %d" % cid, f)
end()
