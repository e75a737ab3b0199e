package warm

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/bwrap"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/rootfs"
	"github.com/agon-arena/agon/sandbox/runc"
	"github.com/agon-arena/agon/sandbox/runsc"
)

func TestMain(m *testing.M) {
	netns.MaybeChild()
	os.Exit(m.Run())
}

var imports = []string{"asyncio", "json", "re", "math", "random", "collections", "itertools", "functools", "dataclasses", "typing", "datetime", "urllib.request", "http.client", "hashlib"}

func drivers(t testing.TB) map[string]sandbox.Driver {
	t.Helper()
	out := map[string]sandbox.Driver{}
	var err error
	if out["bwrap"], err = bwrap.New(t.Context(), bwrap.Config{StateDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Log("LOUD: runc and runsc need root; only bwrap is tested")
		return out
	}
	if out["runc"], err = runc.New(t.Context(), runc.Config{StateDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if _, ok := runsc.Find(runsc.BuildConfig{}); !ok {
		t.Log("LOUD: gVisor is not built here (make setup); it is not tested")
		return out
	}
	if out["runsc"], err = runsc.New(t.Context(), runsc.Config{StateDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	return out
}

func pool(t testing.TB, d sandbox.Driver, script string, edit func(*Config)) *Pool {
	t.Helper()
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "agent.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	c := Config{Driver: d, Script: "/agon/agent.py", Imports: imports, MaxResult: 64 << 10, MaxOutput: 4 << 10, Spec: sandbox.Spec{
		Name: "warm", Rootfs: root, Mounts: []sandbox.Mount{{Kind: sandbox.MountReadOnly, Source: dir, Target: "/agon"}},
		Limits: agon.Limits{MemoryBytes: 256 << 20, CPUMilli: 2000, Pids: 32},
	}}
	if edit != nil {
		edit(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return p
}

const script = `
import asyncio, os, random, socket, subprocess, sys, threading, time, urllib.request
state = {"n": 0}
def count(p):
    state["n"] += 1; sys.modules.setdefault("planted", 1)
    return [state["n"], "planted2" in sys.modules, p]
def plant(p):
    sys.modules["planted2"] = 1; os.environ["PLANTED"] = "1"; builtins = __import__("builtins"); builtins.len = None
    return None
def nothing(p): return None
async def later(p):
    await asyncio.sleep(0)
    return {"later": True}
def fails(p): raise KeyError("mine")
def nan(p): return float("nan")
class Sly(dict):
    def __reduce__(self): return (os.system, ("id",))
def sly(p): return Sly()
def big(p): return "x" * (1 << 20)
def talk(p): print("x" * 100000); return 1
def words(p): print("hello"); print("err", file=sys.stderr); return 1
def sleeps(p): time.sleep(60)
def dies(p): os.kill(os.getpid(), 9)
def leaves(p): os._exit(0)
def forged(p):
    os.write(3, (19).to_bytes(8, "big") + b'{"status":"ok","a":'); os._exit(0)
def twice(p):
    d = b'{"status":"ok","result":1,"result":2}'
    os.write(3, len(d).to_bytes(8, "big") + d); os._exit(0)
def exits(p): sys.exit(3)
def eats(p):
    b = []
    while True: b.append(bytearray(1 << 20))
def spins(p):
    while True: pass
def denied(p):
    out = []
    def tryit(what, f):
        try: r = f()
        except (OSError, RuntimeError, ValueError): return
        out.append("%s: %r" % (what, r))
    tryit("thread", lambda: threading.Thread(target=time.sleep, args=(1,)).start())
    tryit("fork", os.fork); tryit("exec", lambda: os.execv("/bin/true", ["true"]))
    tryit("subprocess", lambda: subprocess.run(["/bin/true"])); tryit("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {}))
    tryit("system", lambda: os.system("true") == 0 or (_ for _ in ()).throw(OSError()))
    tryit("kill parent", lambda: os.kill(os.getppid(), 9)); tryit("kill all", lambda: os.kill(-1, 9)); tryit("killpg", lambda: os.killpg(0, 9))
    for d in ("/tmp", "/dev/shm", "/agon", "/var/tmp", "/"):
        tryit("write " + d, lambda: open(d + "/x", "w")); tryit("mkdir " + d, lambda: os.mkdir(d + "/y")); tryit("link " + d, lambda: os.symlink("a", d + "/z"))
        tryit("fifo " + d, lambda: os.mkfifo(d + "/f")); tryit("touch " + d, lambda: os.utime(d))
    tryit("socket file", lambda: socket.socket(socket.AF_UNIX).bind("/tmp/s")); tryit("listen", lambda: socket.create_server(("127.0.0.1", 9000)))
    pp = os.getppid()
    for f in ("mem", "environ", "maps", "cwd"):
        tryit("parent " + f, lambda: os.readlink("/proc/%d/cwd" % pp) if f == "cwd" else open("/proc/%d/%s" % (pp, f), "rb").read(1))
    for n in range(64):
        tryit("parent fd %d" % n, lambda: os.open("/proc/%d/fd/%d" % (pp, n), os.O_RDONLY | os.O_NONBLOCK)); tryit("parent link %d" % n, lambda: os.readlink("/proc/%d/fd/%d" % (pp, n)))
    import ctypes, resource
    libc = ctypes.CDLL(None, use_errno=True)
    tryit("shm", lambda: libc.shmget(1, 4096, 0o1666) >= 0 or (_ for _ in ()).throw(OSError()))
    tryit("prlimit", lambda: resource.prlimit(pp, resource.RLIMIT_NOFILE, (3, 3))); tryit("nice", lambda: os.setpriority(os.PRIO_PROCESS, pp, 19))
    tryit("affinity", lambda: os.sched_setaffinity(pp, {0}))
    fds = sorted(int(f) for f in os.listdir("/proc/self/fd"))
    if fds[:4] != [0, 1, 2, 3] or len(fds) > 5: out.append("fds %r" % fds)
    return out
def door(p): return urllib.request.urlopen("http://127.0.0.1:8000/x").read().decode()
`

func TestInvoke(t *testing.T) {
	for name, d := range drivers(t) {
		t.Run(name, func(t *testing.T) {
			gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("door")) }))
			defer gate.Close()
			p := pool(t, d, script, func(c *Config) {
				c.Spec.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: gate.URL}}
			})
			hard := slices.Contains(d.Info().Limits, "memory")
			for _, tt := range []struct {
				entry, status, value, code string
				kept                       bool
			}{
				{"count", "ok", `[1, false, {"a": 1}]`, "", true},
				{"plant", "died", "", "", true},
				{"count", "ok", `[1, false, {"a": 1}]`, "", true},
				{"nothing", "ok", "null", "", true},
				{"later", "ok", `{"later": true}`, "", true},
				{"door", "ok", `"door"`, "", true},
				{"fails", "error", "", "UnhandledException", true},
				{"none", "error", "", "MissingEntrypoint", true},
				{"nan", "error", "", "UnhandledException", true},
				{"sly", "error", "", "UnhandledException", true},
				{"exits", "error", "", "UnhandledException", true},
				{"denied", "ok", "[]", "", true},
				{"words", "ok", "1", "", true},
				{"big", "too_large", "", "", false},
				{"talk", "too_large", "", "", false},
				{"sleeps", "timeout", "", "", false},
				{"spins", "timeout", "", "", false},
				{"dies", "error", "", "UnhandledException", true}, // it may not even signal itself
				{"leaves", "died", "", "", true},
				{"forged", "died", "", "", true},
				{"twice", "died", "", "", false},
				{"eats", "*", "", "", false},
				{"count", "ok", `[1, false, {"a": 1}]`, "", true},
			} {
				if tt.entry == "eats" && !hard {
					t.Logf("NOT DEMANDED: %s does not claim to enforce memory here", name)
					continue
				}
				before := p.Boxes()
				wall := 20 * time.Second
				if tt.status == "timeout" {
					wall = 300 * time.Millisecond
				}
				r, err := p.Invoke(t.Context(), tt.entry, json.RawMessage(`{"a":1}`), wall)
				if err != nil {
					t.Fatalf("%s: %v", tt.entry, err)
				}
				if r.Status != tt.status && tt.status != "*" || string(r.Value) != tt.value || r.Code != tt.code {
					t.Errorf("%s: %+v value %.300s output %.200s", tt.entry, r, r.Value, r.Output)
				}
				if r.Kept && !tt.kept {
					t.Errorf("%s: the box was kept", tt.entry)
				}
				if tt.entry == "words" && string(r.Output) != "hello\nerr\n" && string(r.Output) != "err\nhello\n" {
					t.Errorf("output %q", r.Output)
				}
				if p.Boxes() > before+1 {
					t.Errorf("%s: %d boxes", tt.entry, p.Boxes()-before)
				}
			}
		})
	}
}

func TestNew(t *testing.T) {
	d := drivers(t)["bwrap"]
	for name, c := range map[string]Config{
		"no driver": {Script: "/x"},
		"no script": {Driver: d},
		"writable":  {Driver: d, Script: "/x", Spec: sandbox.Spec{Mounts: []sandbox.Mount{{Kind: sandbox.MountScratch, Target: "/w"}}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: made", name)
		}
	}
	p := pool(t, d, "def f(p): return 1\n", func(c *Config) { c.Imports = []string{"no_such_module"} })
	if err := p.Warm(t.Context()); err == nil || !strings.Contains(err.Error(), "no_such_module") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"status":"ok","result":1}`, `{"status":"error","error":{"code":"a","exception":"b","message":"c"}}`, `{"a":1,"a":2}`, `[[[[`, `{}{}`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		if r.parse(b) == nil && r.Status == "ok" && !json.Valid(r.Value) {
			t.Errorf("%q gave %q", b, r.Value)
		}
	})
}

// BenchmarkInvoke reports invocations per second and the median.
func BenchmarkInvoke(b *testing.B) {
	for name, d := range drivers(b) {
		b.Run(name, func(b *testing.B) {
			p := pool(b, d, "def f(p): return p\n", nil)
			if err := p.Warm(b.Context()); err != nil {
				b.Fatal(err)
			}
			var all []time.Duration
			for b.Loop() {
				start := time.Now()
				r, err := p.Invoke(b.Context(), "f", json.RawMessage("1"), 10*time.Second)
				if err != nil || r.Status != "ok" {
					b.Fatal(r, err)
				}
				all = append(all, time.Since(start))
			}
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
