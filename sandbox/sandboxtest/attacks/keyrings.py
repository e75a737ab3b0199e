call("add_key", 248, b"user", b"k", b"v", 1, 0xfffffffd)
call("request_key", 249, b"user", b"k", 0, 0)
call("keyctl", 250, 0, 0xfffffffd, 1)
end()
