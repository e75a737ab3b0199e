for n in (10, 100, 1000):
    try: subprocess.run(["/bin/true"] + ["x" * 100000] * n)
    except OSError as e: print(e)
    try: subprocess.run(["/bin/true"], env={"V%d" % i: "x" * 100000 for i in range(n)})
    except OSError as e: print(e)
try: subprocess.run(["/bin/true", "x" * (4 << 20)])
except OSError as e: print(e)
end()
