# Many connections that never finish a request.
held = []
for i in range(300):
    try:
        s = socket.socket(); s.settimeout(1); s.connect(("127.0.0.1", 8000)); s.sendall(b"GET / HTTP/1.1\r\nX-A: "); held.append(s)
    except OSError: break
end()
time.sleep(1000)
