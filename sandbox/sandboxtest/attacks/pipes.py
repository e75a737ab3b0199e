held = []
try:
    while True:
        r, w = os.pipe(); held += [r, w]
        os.set_blocking(w, False)
        try: os.write(w, bytes(1 << 20))
        except BlockingIOError: pass
        if len(held) > 10000: breach("pipes"); break
except OSError: pass
end()
