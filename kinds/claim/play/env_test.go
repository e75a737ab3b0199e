package play

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/netns"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// state is where boxes of this test process live.
var state string

func TestMain(m *testing.M) {
	netns.MaybeChild()
	var err error
	if state, err = os.MkdirTemp("", "agon-test-"); err == nil {
		err = os.Chmod(state, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(state)
	os.Exit(code)
}

var opened struct {
	sync.Mutex
	driver sandbox.Driver
	rootfs string
}

// openDriver probes once per process. AGON_DRIVER names another driver than the strongest.
func openDriver(t testing.TB) (sandbox.Driver, string) {
	t.Helper()
	opened.Lock()
	defer opened.Unlock()
	if opened.driver == nil {
		dir, err := rootfs.Ensure(context.Background(), rootfs.Config{})
		if err != nil {
			t.Fatalf("no root file system for boxes, nothing can be tested: %v", err)
		}
		d, reports, err := probe.Probe(context.Background(), probe.Config{Rootfs: dir, StateDir: state, Want: os.Getenv("AGON_DRIVER")})
		if err != nil {
			t.Fatalf("no box, nothing can be tested: %v %+v", err, reports)
		}
		opened.driver, opened.rootfs = d, dir
	}
	return opened.driver, opened.rootfs
}

// world is an engine around the kind: real boxes, a real tool host over two documents.
type world struct {
	t      testing.TB
	player *validator.Player
	kind   *Kind
	dirs   map[agon.Digest]string
	refs   []agon.TaskRef
}

// Tree implements validator.Trees.
func (w *world) Tree(_ context.Context, d agon.Digest) (string, error) {
	dir, ok := w.dirs[d]
	if !ok {
		return "", fmt.Errorf("no tree %s", d)
	}
	return dir, nil
}

type noGateway struct{}

func (noGateway) Open(context.Context, gateway.Policy, gateway.Recorder) (gateway.Session, error) {
	return nil, fmt.Errorf("no gateway")
}

func newWorld(t testing.TB, judge SupportJudge) *world {
	t.Helper()
	return newWorldWith(t, judge, index.New([]index.Doc{
		{URL: "https://docs.example/harbour", Title: "Harbour", Text: "The harbour of Vell was dredged to a depth of 14 metres in 1987."},
		{URL: "https://docs.example/bridge", Title: "Bridge", Text: "The bridge at Orm has three arches and carries a single railway line."},
	}, "docs", time.Now))
}

func newWorldWith(t testing.TB, judge SupportJudge, search tools.Search) *world {
	t.Helper()
	d, root := openDriver(t)
	w := &world{t: t, kind: New(Config{Rootfs: root, Judge: judge}), dirs: map[agon.Digest]string{}}
	host := tools.New(tools.Config{Search: search, Headers: Headers(), PriceVersion: PriceVersion})
	srv := httptest.NewServer(host)
	t.Cleanup(func() { host.Stop(); srv.Close() })
	w.player = &validator.Player{
		Driver: d, Gateway: noGateway{}, Kinds: map[string]kind.Kind{Name: w.kind}, Trees: w, Now: time.Now,
		Tools: &validator.ToolHost{Host: host, URL: srv.URL},
	}
	return w
}

// dir makes a directory that boxes can read.
func (w *world) dir(files map[string]string) (string, agon.Digest) {
	w.t.Helper()
	dir := w.t.TempDir()
	for p := dir; p != os.TempDir() && len(p) > 1; p = filepath.Dir(p) {
		_ = os.Chmod(p, 0o755)
	}
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			w.t.Fatal(err)
		}
	}
	d := agon.Sum([]byte(dir))
	w.dirs[d] = dir
	return dir, d
}

// task adds a claim with options -1 and 1 and returns its key.
func (w *world) task(claim string, verdict int, why string) string {
	w.t.Helper()
	c, err := json.Marshal(Claim{ClaimID: uuid.NewString(), Budget: 50_000, Payload: Payload{
		ClaimText: claim, RubricTitle: "Accuracy", RubricDescription: "Is the claim true?",
		VerdictOptions: []Option{{-1, "Fail"}, {1, "Pass"}},
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	r, err := json.Marshal(Reference{Verdict: verdict, Justification: why, Citations: []RefCitation{}, Spans: []Span{}})
	if err != nil {
		w.t.Fatal(err)
	}
	key := fmt.Sprintf("t/c%d", len(w.refs))
	_, d := w.dir(map[string]string{
		"task.toml": "version = \"1.0\"\n[agon]\nkind = \"claim\"\n", "instruction.md": claim, ClaimFile: string(c), ReferenceFile: string(r),
	})
	w.refs = append(w.refs, agon.TaskRef{Key: key, Digest: d})
	return key
}

func policy() agon.Policy {
	return agon.Policy{
		Models: []string{"*"}, Budget: agon.Budget{Micros: 50_000, Calls: 50},
		Agent: agon.Limits{WallMS: 5000, MemoryBytes: 512 << 20, Pids: 64, DiskBytes: 64 << 20, Inodes: 8192, OutputBytes: 8 << 20},
	}
}

// play runs a script over all claims by the engine's own code path.
func (w *world) play(script string) (*validator.Attempt, map[string]Pair) {
	w.t.Helper()
	return w.playWith(script, policy())
}

func (w *world) playWith(script string, pol agon.Policy) (*validator.Attempt, map[string]Pair) {
	w.t.Helper()
	_, d := w.dir(map[string]string{AgentFile: script})
	a := w.player.Play(w.t.Context(), validator.Job{
		Run: agon.RunSpec{Run: "run-1", Arena: "a", Tasks: w.refs, Policy: pol}, Attempt: 1,
		Arena: agon.Arena{ID: "a", Kind: Name, Tasks: w.refs, Policy: pol}, Submission: agon.Submission{ID: "s", Digest: d},
	})
	list, err := DecodePairs(a.Files[PairsFile])
	if err != nil {
		w.t.Fatal(err)
	}
	pairs := map[string]Pair{}
	for _, p := range list {
		pairs[p.Task] = p
	}
	return a, pairs
}

func scores(a *validator.Attempt) string {
	var out []string
	for _, s := range a.Scores {
		out = append(out, fmt.Sprint(s.Value))
	}
	return strings.Join(out, " ")
}
