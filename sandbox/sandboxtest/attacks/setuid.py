import shutil
refused("setuid 0", os.setuid, 0); refused("setgid 0", os.setgid, 0); refused("setgroups", os.setgroups, [0])
refused("chown", os.chown, "/work", 0, 0)
shutil.copy("/bin/sh", "/work/sh"); os.chmod("/work/sh", 0o6755)
out = subprocess.run(["/work/sh", "-p", "-c", "id -u; id -g"], capture_output=True, text=True).stdout.split()
if out != ["1000", "1000"]: breach("setuid file", out)
refused("shadow", open, "/etc/shadow")
if subprocess.run(["su", "-c", "id"], capture_output=True, stdin=subprocess.DEVNULL).returncode == 0: breach("su")
for root, dirs, files in os.walk("/usr"):
    for f in files:
        st = os.lstat(os.path.join(root, f))
        if st.st_mode & 0o6000: breach("set-id file", os.path.join(root, f))
end()
