import select
held = []
try:
    for i in range(50000):
        held.append(select.epoll()); held.append(os.eventfd(0)); held.append(socket.socket())
    breach("50000 of each")
except OSError: pass
end()
