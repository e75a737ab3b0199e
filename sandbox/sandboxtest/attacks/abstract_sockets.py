def f(t):
    def g(): socket.socket(socket.AF_UNIX, t).connect("\0agon-attack-" + sys.argv[1])
    return g
refused("stream", f(1)); refused("dgram", f(2)); refused("seqpacket", f(5))
for p in ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/systemd/private", "/run/dbus/system_bus_socket"):
    refused(p, lambda: socket.socket(socket.AF_UNIX).connect(p))
end()
