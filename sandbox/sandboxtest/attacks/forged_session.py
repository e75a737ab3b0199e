q = urllib.request.Request("http://127.0.0.1:8000/session", headers={"X-Session": "rival", "x-session": "rival", "Connection": "x-session"})
if urllib.request.urlopen(q).read() != b"mine": breach("session")
s = socket.create_connection(("127.0.0.1", 8000), 10)
s.sendall(b"GET /session HTTP/1.1\r\nHost: x\r\nX-Session: rival\r\nX-SESSION: rival\r\nX-Session : rival\r\nConnection: close\r\n\r\n")
out = b""
while True:
    c = s.recv(4096)
    if not c: break
    out += c
if b"rival" in out: breach("session", out)
end()
