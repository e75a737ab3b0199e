b = ctypes.create_string_buffer(4096); p = ctypes.addressof(b); S = b"/work"
for what, nr, *a in (("ptrace", 101, 16, os.getppid(), 0, 0), ("mount", 165, b"none", S, b"tmpfs", 0, 0), ("umount", 166, S, 2),
    ("pivot_root", 155, S, S), ("chroot", 161, S), ("unshare", 272, 0x10000000), ("setns", 308, 0, 0), ("clone", 56, 0x10000011, 0, 0, 0, 0),
    ("bpf", 321, 0, p, 48), ("perf_event_open", 298, p, 0, -1, -1, 0), ("io_uring_setup", 425, 4, p), ("userfaultfd", 323, 1),
    ("kexec_load", 246, 0, 0, 0, 0), ("init_module", 175, p, 10, b""), ("finit_module", 313, 0, b"", 0), ("delete_module", 176, b"x", 0),
    ("reboot", 169, 0xfee1dead, 672274793, 0, 0), ("swapon", 167, S, 0), ("syslog", 103, 3, p, 100), ("personality", 135, 0x40000),
    ("fsopen", 430, b"tmpfs", 0), ("open_tree", 428, -100, b"/", 1), ("mount_setattr", 442, -100, b"/", 0, p, 32),
    ("acct", 163, S), ("quotactl", 179, 0, 0, 0, 0), ("iopl", 172, 3), ("modify_ldt", 154, 0, p, 16), ("fanotify_init", 300, 0, 0),
    ("open_by_handle_at", 304, -100, p, 0), ("name_to_handle_at", 303, -100, S, p, p, 0)):
    call(what, nr, *a)
end()
