def bind(addr, opts=()):
    def g():
        s = socket.socket()
        for o in opts: s.setsockopt(socket.SOL_SOCKET, o, 1)
        s.bind((addr, 8000)); s.listen()
    return g
refused("same", bind("127.0.0.1")); refused("reuse", bind("127.0.0.1", (socket.SO_REUSEADDR, socket.SO_REUSEPORT)))
# A wider address may be had, but the door's own address still leads to the door.
try: bind("0.0.0.0", (socket.SO_REUSEADDR, socket.SO_REUSEPORT))()
except OSError: pass
if urllib.request.urlopen("http://127.0.0.1:8000/who").read() != b"gateway": breach("another server answers")
end()
