"""Times spans by the GPU's own clock, with CUDA's driver interface and nothing else.

Reads a line at a time: "start" records an event and answers "ok"; "stop" records
another, waits until the device has come there and answers the nanoseconds between the
two; anything that fails answers "error TEXT" and ends. No contestant's code is ever in
this process. The device is the only one that CUDA_VISIBLE_DEVICES names.
"""
import ctypes
import sys


def main():
    cuda = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libcuda.so.1")

    def call(name, *args):
        code = getattr(cuda, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            cuda.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError("%s: %s" % (name, (text.value or b"%d" % code).decode()))

    device, context = ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    for e in events:
        call("cuEventCreate", ctypes.byref(e), 0)
    print("ready", flush=True)
    started = False
    for line in sys.stdin:
        word = line.strip()
        if word == "start":
            call("cuEventRecord", events[0], None)
            call("cuEventSynchronize", events[0])  # the span begins when the device is there
            started = True
            print("ok", flush=True)
        elif word == "stop" and started:
            call("cuEventRecord", events[1], None)
            call("cuEventSynchronize", events[1])
            ms = ctypes.c_float()
            call("cuEventElapsedTime", ctypes.byref(ms), events[0], events[1])
            started = False
            print(int(ms.value * 1e6), flush=True)
        else:
            raise RuntimeError("%r: want start, then stop" % word[:40])


try:
    main()
except Exception as e:
    print("error %s" % " ".join(str(e).split())[:300], flush=True)
    sys.exit(1)
