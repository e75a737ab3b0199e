for p in ("/work", "/work/repo", "/tmp", "/agon"):
    try: os.rename(p, p + "2"); breach("moved " + p)
    except OSError: pass
try: os.rename("/work/inner", "/work/moved")
except OSError: pass
try:
    os.symlink("/etc", "/work/inner")
except OSError: pass
end()
