b = ctypes.create_string_buffer(256)
call("settimeofday", 164, b, 0); call("clock_settime", 227, 0, b); call("adjtimex", 159, ctypes.create_string_buffer(struct.pack("I", 1) + bytes(250), 256))
call("sethostname", 170, b"x", 1)
end()
