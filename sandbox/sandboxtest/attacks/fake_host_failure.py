# What a laid-off host would look like, made by hand.
print("host cannot run the box: no space left on device", file=sys.stderr)
print("END", flush=True)
os._exit(137)
