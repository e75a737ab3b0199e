port = int(sys.argv[1])
def tcp(h, p, f=socket.AF_INET):
    def g():
        s = socket.socket(f); s.settimeout(5); s.connect((h, p))
    return g
for what, f in (("internet", tcp("192.0.2.1", 443)), ("metadata", tcp("169.254.169.254", 80)), ("private", tcp("10.0.0.1", 53)), ("docker", tcp("172.17.0.1", 80)),
    ("host loopback", tcp("127.0.0.1", port)), ("v6", tcp("2001:db8::1", 443, socket.AF_INET6)), ("v6 loopback", tcp("::1", port, socket.AF_INET6)),
    ("any", tcp("0.0.0.0", port)), ("dns", lambda: socket.getaddrinfo("example.org", 80)), ("udp", lambda: socket.socket(2, 2).sendto(b"x", ("192.0.2.53", 53))),
    ("broadcast", lambda: socket.socket(2, 2).sendto(b"x", ("255.255.255.255", 53)))):
    refused(what, f)
end()
