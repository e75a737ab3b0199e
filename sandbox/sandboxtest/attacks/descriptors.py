held = []
try:
    while len(held) < 100000: held.append(os.open("/dev/null", os.O_RDONLY))
    breach("100000 descriptors")
except OSError as e:
    if len(held) > 5000: breach("descriptors", len(held))
end()
