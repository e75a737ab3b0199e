# The command ends but something keeps its output open.
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    time.sleep(1000)
end()
os._exit(0)
