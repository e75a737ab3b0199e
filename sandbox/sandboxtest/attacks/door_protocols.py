port = sys.argv[1].encode()
def ask(data):
    s = socket.create_connection(("127.0.0.1", 8000), 10); out = b""
    try:
        s.sendall(data) # a door that refuses closes before it has read all
        while True:
            c = s.recv(65536)
            if not c: return out
            out += c
    except OSError: return out
for req in (b"CONNECT 127.0.0.1:%s HTTP/1.1\r\nHost: x\r\n\r\n" % port, b"GET http://127.0.0.1:%s/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % port,
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" % port,
    b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300000 + b"\r\n\r\n", b"\x16\x03\x01\x02\x00"):
    got = ask(req)
    if b"elsewhere" in got or b"101 Switching" in got: breach("door", got[:100])
end()
