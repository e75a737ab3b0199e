for d in ("/work", "/tmp", "/dev/shm"):
    n = 0
    try:
        while n < 50000:
            open("%s/%d" % (d, n), "w").close()
            n += 1
        breach("50000 files in " + d)
    except OSError: pass
end()
