n = 0
try:
    while n < 5000:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        n += 1
    breach("5000 processes")
except OSError as e:
    if n > 200: breach("too many", n)
end()
