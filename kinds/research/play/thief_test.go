package play

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/surface"
)

// leaves is a program that leaves something for the next one wherever it may.
const leaves = `import ctypes, os, socket, sys, time
done = []
def by(name, f):
    try:
        f()
        done.append(name)
    except Exception:
        pass
def child(f):
    if os.fork() == 0:
        os.setsid()
        f()
        os._exit(0)
def listen(family, at):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.bind(at)
    s.listen()
    child(lambda: time.sleep(600))
def late():
    while True:
        open("/workspace/late", "a").write("x")
        time.sleep(0.01)
libc = ctypes.CDLL(None, use_errno=True)
def shm():
    assert libc.shmget(4711, 4096, 0o1666) >= 0
by("port", lambda: listen(socket.AF_INET, ("127.0.0.1", 7777)))
by("name", lambda: listen(socket.AF_UNIX, "\0agon-thief"))
by("shared memory", shm)
by("survivor", lambda: child(late))
by("time of a file", lambda: os.utime("submission/score.txt", (1, 1)))
by("attribute", lambda: os.setxattr("submission/score.txt", "user.thief", b"x"))
by("pipe", lambda: os.mkfifo("/tmp/pipe"))
by("link", lambda: os.symlink("/etc", "/workspace/out"))
by("shm file", lambda: open("/dev/shm/thief", "w").write("x"))
by("clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 1))
print("\n".join(done))
`

// looks is the next program: it prints what it finds, and what only a benchmark has.
const looks = `import ctypes, os, socket, time
found = []
def by(name, f):
    try:
        if f():
            found.append(name)
    except Exception:
        pass
def reach(family, at):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(1)
    s.connect(at)
    return True
libc = ctypes.CDLL(None, use_errno=True)
by("port", lambda: reach(socket.AF_INET, ("127.0.0.1", 7777)))
by("name", lambda: reach(socket.AF_UNIX, "\0agon-thief"))
by("shared memory", lambda: libc.shmget(4711, 4096, 0) >= 0)
by("survivor", lambda: os.path.exists("/workspace/late"))
by("time of a file", lambda: os.stat("submission/score.txt").st_mtime == 1)
by("attribute", lambda: os.listxattr("submission/score.txt"))
by("pipe", lambda: os.path.exists("/tmp/pipe"))
by("link", lambda: os.path.lexists("/workspace/out"))
by("shm file", lambda: os.path.exists("/dev/shm/thief"))
by("clock", lambda: time.time() < 1e6)
by("the door of the benchmark", lambda: reach(socket.AF_INET, ("127.0.0.1", 8000)))
by("seed and state", lambda: [k for k in os.environ if k.startswith(("AGON_", "AUTORESEARCH_", "HIDDEN_"))])
by("hidden data", lambda: os.listdir("/agon/hidden"))
by("state", lambda: os.listdir("/agon/state"))
def environs():
    for p in os.listdir("/proc"):
        if p.isdigit():
            try:
                if b"s3cr3t" in open("/proc/" + p + "/environ", "rb").read():
                    return True
            except OSError:
                pass
by("environment of another", environs)
print("\n".join(found))
`

// No way of leaving something for the next program of an isolated benchmark works, nor one to what
// only the benchmark has: each of these would let a program know inputs, seeds or answers.
func TestThievesInTwoPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.task(edit(oneTask, "baseline", "isolate = true\nresumable = true\nbaseline"), with(oneBase, "hidden/a.txt", "answer\n", "private", "[benchmark_env]\nHIDDEN_TOKEN = \"s3cr3t\"\n"))
	p, done, err := w.kind.player(t.Context(), w, w.run())
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	r, err := p.programs(t.Context(), &side{name: "x", changes: &surface.Result{OK: true}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	}()
	run := func(program string) []string {
		t.Helper()
		head, err := json.Marshal(programRequest{Args: []string{"python3", "-I", "-c", program}})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/run", strings.NewReader(string(head)+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		in := bufio.NewReader(resp.Body)
		line, err := in.ReadBytes('\n')
		var x programReply
		if err != nil || json.Unmarshal(line, &x) != nil {
			t.Fatalf("%q %v", line, err)
		}
		rest, err := io.ReadAll(in)
		if err != nil || x.Code != 0 {
			t.Fatalf("%+v %v\n%s", x, err, rest)
		}
		return strings.Fields(strings.ReplaceAll(string(rest[:x.Stdout]), " ", "_"))
	}
	for range aheadFrom - 1 {
		run("")
	}
	// The box of the next program is made while this one still runs, and has left all it can.
	if left := run(leaves + "time.sleep(4 * " + fmt.Sprint(aheadAfter.Seconds()) + ")\n"); len(left) < 5 {
		t.Errorf("it could leave only %v: the test proves little", left)
	}
	r.mu.Lock()
	made := r.ahead.made != nil
	r.mu.Unlock()
	if made != p.spare() {
		t.Errorf("the next box is made meanwhile: %t, want %t", made, p.spare())
	}
	if found := run(looks); len(found) > 0 {
		t.Errorf("the next program found %v", found)
	}
}
