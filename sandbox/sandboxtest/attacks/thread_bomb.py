n = 0
try:
    while n < 3000:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        n += 1
    breach("3000 threads")
except RuntimeError:
    if n > 200: breach("too many", n)
end()
os._exit(0)
