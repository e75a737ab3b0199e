try:
    with open("/proc/self/oom_score_adj", "w") as f: f.write("-1000")
    if open("/proc/self/oom_score_adj").read().strip() == "-1000" and "gvisor" not in os.uname().version + open("/proc/version").read().lower():
        breach("oom_score_adj")
except OSError: pass
b = []
while True: b.append(bytearray(1 << 20))
