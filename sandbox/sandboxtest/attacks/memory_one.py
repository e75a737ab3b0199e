b = []
while True: b.append(bytearray(1 << 20))
