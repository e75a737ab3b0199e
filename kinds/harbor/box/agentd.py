"""Start programs for the verifier as the contestant's user: as-agent asks, over a socket that has a name but no file.

The asker's standard streams come with the request, so that a program writes where the verifier says and nowhere else.
"""
import json
import os
import signal
import socket
import subprocess
import threading

door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
door.bind("\0agon-as-agent")
door.listen(64)
open("/tmp/.as-agent", "w").close()


def serve(c):
    child = None
    fds = []
    try:
        message, fds, _, _ = socket.recv_fds(c, 1 << 20, 3)
        job = json.loads(message)
        env = {k: v for k, v in job["env"].items() if not k.startswith("AGON_")}
        try:
            child = subprocess.Popen(job["args"], cwd=job["dir"], env=env, stdin=fds[0], stdout=fds[1], stderr=fds[2], start_new_session=True)
        except OSError as e:
            c.sendall(json.dumps({"code": 127, "error": str(e)}).encode())
            return
        finally:
            for fd in fds:
                os.close(fd)

        def ended():
            try:
                c.recv(1)  # the asker is gone
                os.killpg(child.pid, signal.SIGKILL)
            except OSError:
                pass

        threading.Thread(target=ended, daemon=True).start()
        code = child.wait()
        c.sendall(json.dumps({"code": code if code >= 0 else 128 - code}).encode())
    except (OSError, ValueError, KeyError, IndexError):
        pass
    finally:
        try:
            c.shutdown(socket.SHUT_RDWR)  # close alone tells nobody while the thread above still reads
        except OSError:
            pass
        c.close()


while True:
    c, _ = door.accept()
    threading.Thread(target=serve, args=(c,), daemon=True).start()
