package sandboxtest

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon/sandbox"
)

//go:embed attacks/*.py
var attackFiles embed.FS

// Attack is one hostile program and what has to become of it. The programs are
// in attacks/, with prelude.py before each.
type Attack struct {
	Name    string // file name without .py
	Tries   string // what the program tries
	Defence string // what stops it
	Outcome string // what must be seen, in words
	// Limits that may end it; empty means that none may. One of them must where Must is set.
	Limits []string
	Must   bool
	// End says that the program must come to its last line.
	End bool
	// Needs are limits that a driver must claim, else the attack is tried but
	// its outcome is not demanded: "not enforced" there.
	Needs []string

	edit   func(*sandbox.Spec)
	wall   time.Duration
	during func(*testing.T, sandbox.Box, <-chan struct{}) // beside the program, until stop
	alone  bool                                           // it measures the whole machine: one such attack at a time, in whatever test process
	check  func(*testing.T, *attackRun)
}

// attackRun is what is looked at after the program.
type attackRun struct {
	s   *suite
	box sandbox.Box
	r   result
}

// RunAttacks plays every attack in a box of its own. Of each is demanded, beyond
// its own outcome: nothing in its output says BREACH, neither the command nor the
// box counts as lost (that would be another try for the asking), the box closes,
// and nothing of it is left.
func RunAttacks(t *testing.T, c Config) {
	s := &suite{Config: c}
	for _, a := range Attacks() {
		t.Run(a.Name, func(t *testing.T) { s.attack(t, a) })
	}
	t.Run("nothing left", func(t *testing.T) { s.nothingLeft(t) })
}

// enforces tells whether a driver claims all that an attack needs.
func (a Attack) enforces(limits []string) bool {
	for _, n := range a.Needs {
		if !slices.Contains(limits, n) {
			return false
		}
	}
	return true
}

// Program returns the source of an attack.
func (a Attack) Program() (string, error) {
	var out strings.Builder
	for _, n := range []string{"prelude", a.Name} {
		b, err := attackFiles.ReadFile("attacks/" + n + ".py")
		if err != nil {
			return "", err
		}
		out.Write(b)
	}
	return out.String(), nil
}

// theGateway answers as a gateway would to what the attacks ask.
func theGateway(t *testing.T) (gateURL string, hostPort int) {
	t.Helper()
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/who":
			_, _ = io.WriteString(w, "gateway")
		case "/session":
			_, _ = io.WriteString(w, strings.Join(r.Header.Values("X-Session"), ","))
		case "/smuggled":
			t.Error("a smuggled request arrived")
		}
	}))
	t.Cleanup(gate.Close)
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t.Error("a request reached another server of the host")
		_, _ = io.WriteString(w, "elsewhere")
	}))
	t.Cleanup(host.Close)
	return gate.URL, host.Listener.Addr().(*net.TCPAddr).Port
}

func (s *suite) attack(t *testing.T, a Attack) {
	if a.alone {
		lockMachine(t)
	}
	gate, port := theGateway(t)
	secret := t.TempDir()
	write(t, secret, map[string]string{"secret": "attack-secret"})
	abstract, err := net.Listen("unix", fmt.Sprintf("@agon-attack-%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = abstract.Close() }()
	source, err := a.Program()
	if err != nil {
		t.Fatal(err)
	}
	b := s.start(t, func(sp *sandbox.Spec) {
		sp.Limits.WallMS = 20_000
		sp.Mounts = append(sp.Mounts, sandbox.Mount{Kind: sandbox.MountReadOnly, Source: secret, Target: "/agon"})
		sp.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: gate, Header: map[string]string{"X-Session": "mine"}}}
		if a.edit != nil {
			a.edit(sp)
		}
	})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	if a.during != nil {
		wg.Go(func() { a.during(t, b, stop) })
	}
	args := append([]string{"python3", "-c", source, fmt.Sprint(port)}, s.hostWords(secret)...)
	r := exec(t, b, sandbox.Cmd{Args: args, Wall: a.wall, Untrusted: true})
	close(stop)
	wg.Wait()
	demanded := a.enforces(s.Driver.Info().Limits)
	if !demanded {
		t.Logf("NOT ENFORCED: %s does not claim %v here", s.Driver.Info().Name, a.Needs)
	}
	if strings.Contains(r.out, "BREACH") && demanded {
		t.Errorf("%v", r)
	}
	if r.Lost != "" {
		t.Errorf("the command counts as lost: %v", r)
	}
	switch {
	case !demanded:
	case a.End && r.Limit == "" && !strings.Contains(r.out, "END\n"):
		t.Errorf("did not come to its end: %v", r)
	case r.Limit == "" && a.Must, r.Limit != "" && !slices.Contains(a.Limits, r.Limit):
		t.Errorf("limit %q, want one of %q: %v", r.Limit, a.Limits, r)
	}
	if a.check != nil && demanded {
		a.check(t, &attackRun{s, b, r})
	}
	if e := b.End(); e.Killed != "" {
		t.Errorf("the box counts as killed from outside: %+v", e)
	} else if !e.Ended {
		// What the attack left may bring a limit of its own down on the next command.
		if r := sh(t, b, "echo usable"); r.out != "usable\n" && !slices.Contains(a.Limits, r.Limit) {
			t.Errorf("the box is not usable: %v", r)
		}
	}
	pids := s.strangers(t, b)
	start := time.Now()
	if err := b.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("close took %v", d)
	}
	for _, p := range pids {
		if alive(p) {
			t.Errorf("process %d outlived its box", p)
		}
	}
}

// hostWords are what a box may not find out about the host: our directories, the
// boot, and who built the kernel.
func (s *suite) hostWords(dirs ...string) []string {
	out := append(dirs, s.Rootfs, filepath.Dir(s.Rootfs), s.StateDir)
	for _, p := range []string{"/proc/version", "/proc/sys/kernel/random/boot_id"} {
		if b, err := os.ReadFile(p); err == nil {
			out = append(out, strings.TrimSpace(string(b)))
		}
	}
	return out
}

// socketWatch looks at what the host's TCP sockets hold while the program runs.
func socketWatch(t *testing.T, _ sandbox.Box, stop <-chan struct{}) {
	const memory = 128 << 20 // as in the program
	before := hostTCP(t)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	most := before
	for {
		select {
		case <-stop:
			t.Logf("the host's TCP memory went from %d to %d MB", before>>20, most>>20)
			if most-before > 2*memory {
				t.Errorf("a box of %d MB took %d MB of the host's TCP memory", memory>>20, (most-before)>>20)
			}
			return
		case <-tick.C:
			most = max(most, hostTCP(t))
		}
	}
}

// lockMachine waits until no other test process measures the machine. Suites of several
// drivers run side by side and would count each other's boxes.
func lockMachine(t *testing.T) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "agon-sandboxtest.lock"), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatalf("lock %s: %v", f.Name(), err)
	}
}

// hostTCP is what all TCP sockets of the machine hold, in bytes.
func hostTCP(t *testing.T) int64 {
	raw, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		t.Error(err)
		return 0
	}
	for l := range strings.Lines(string(raw)) {
		if f := strings.Fields(l); len(f) > 2 && f[0] == "TCP:" && f[len(f)-2] == "mem" {
			n, _ := strconv.ParseInt(f[len(f)-1], 10, 64)
			return n * int64(os.Getpagesize())
		}
	}
	return 0
}

// refuses demands that paths cannot be read as results.
func refuses(paths ...string) func(*testing.T, *attackRun) {
	return func(t *testing.T, a *attackRun) {
		for _, p := range paths {
			got, err := a.box.ReadFile(p, 1<<20)
			if !errors.Is(err, sandbox.ErrUnsafe) && !errors.Is(err, sandbox.ErrNotExist) {
				t.Errorf("%s: %.60q, %v", p, got, err)
			}
		}
	}
}

// checkStarts demands that the box still takes commands.
func checkStarts(t *testing.T, a *attackRun) { usable(t, a.box) }

// code demands an exit status, because nothing else the program says counts.
func code(want int) func(*testing.T, *attackRun) {
	return func(t *testing.T, a *attackRun) {
		if a.r.Code != want {
			t.Errorf("code %d, want %d", a.r.Code, want)
		}
	}
}

// checkStopped demands that no daemon changes a result once the box has given it away.
func checkStopped(t *testing.T, a *attackRun) {
	pids := a.s.strangers(t, a.box)
	l, err := a.box.Layer(t.Context(), "/work")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Remove() }()
	for _, p := range pids {
		if alive(p) {
			t.Errorf("process %d still runs after Layer", p)
		}
	}
	b := a.s.start(t, func(sp *sandbox.Spec) {
		sp.Mounts = []sandbox.Mount{{Kind: sandbox.MountLayer, Layer: l, Target: "/work"}}
	})
	one := must(t, b, "cat /work/result.json")
	if two := must(t, b, "sleep 0.3; cat /work/result.json"); one != two {
		t.Errorf("the result went from %q to %q", one, two)
	}
}

// raceReader reads while the program swaps a file for a link.
func raceReader(t *testing.T, b sandbox.Box, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if got, err := b.ReadFile("/work/race", 1<<20); err == nil && string(got) != "mine" {
			t.Errorf("read %.60q", got)
			return
		}
	}
}

// second runs another attack in a second box while the first one's box lives.
func second(name string) func(*testing.T, *attackRun) {
	return func(t *testing.T, a *attackRun) {
		source, err := Attack{Name: name}.Program()
		if err != nil {
			t.Fatal(err)
		}
		b := a.s.start(t, nil)
		r := py(t, b, source)
		if strings.Contains(r.out, "BREACH") || !strings.Contains(r.out, "END\n") {
			t.Error(r)
		}
	}
}

// checkServed demands that another box's door works while this one holds its own full.
func checkServed(t *testing.T, a *attackRun) {
	gate, _ := theGateway(t)
	b := a.s.start(t, func(sp *sandbox.Spec) {
		sp.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: gate}}
	})
	r := py(t, b, "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/who', timeout=10).read().decode())")
	if r.out != "gateway\n" {
		t.Error(r)
	}
}

// SecurityTable is the table of docs/security.md.
func SecurityTable() string {
	var out bytes.Buffer
	fmt.Fprintf(&out, "| # | program | tries to | defence | outcome | demands |\n|---|---|---|---|---|---|\n")
	for i, a := range Attacks() {
		needs := strings.Join(a.Needs, ", ")
		if needs == "" {
			needs = "every driver"
		}
		fmt.Fprintf(&out, "| %d | `%s` | %s | %s | %s | %s |\n", i+1, a.Name, a.Tries, a.Defence, a.Outcome, needs)
	}
	return out.String()
}

// attackNames lists the programs that are there.
func attackNames() ([]string, error) {
	ents, err := attackFiles.ReadDir("attacks")
	var out []string
	for _, e := range ents {
		out = append(out, strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())))
	}
	return out, err
}
