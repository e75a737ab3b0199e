os.chdir("/work")
try:
    for i in range(3000):
        os.mkdir("d"); os.chdir("d")
except OSError: pass
end()
