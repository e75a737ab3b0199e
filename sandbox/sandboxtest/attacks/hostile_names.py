os.chdir("/work")
for n in ("a\nb", "\x1b[2J", "-rf", "..." , "x" * 255, "\udcff\udcfe", " ", "*", "$(id)", "a\u202eb"):
    try: open(os.fsencode(n) if not n.isascii() else n, "w").close()
    except OSError: pass
os.mkdir("shut"); open("shut/x", "w").close(); os.chmod("shut", 0)
end()
