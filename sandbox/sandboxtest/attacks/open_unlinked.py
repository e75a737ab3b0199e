# Space that no name shows, and an empty result.
f = open("/work/hidden", "wb")
os.unlink("/work/hidden")
try:
    for _ in range(200): f.write(bytes(1 << 20))
    breach("200 MiB hidden")
except OSError: pass
try:
    with open("/work/result.json", "w") as r: r.write("{}" * 100000)
except OSError: pass
end()
