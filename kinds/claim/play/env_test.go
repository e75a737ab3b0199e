package play

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// world is an engine around the kind: real boxes, a real tool host over two documents.
type world struct {
	t      testing.TB
	player *validator.Player
	kind   *Kind
	trees  kittest.Trees
	refs   []agon.TaskRef
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
	d, root := kittest.Driver(t)
	w := &world{t: t, kind: New(Config{Rootfs: root, Judge: judge}), trees: kittest.Trees{}}
	host := tools.New(tools.Config{Search: search, Headers: Headers(), PriceVersion: PriceVersion})
	srv := httptest.NewServer(host)
	t.Cleanup(func() { host.Stop(); srv.Close() })
	w.player = &validator.Player{
		Driver: d, Gateway: noGateway{}, Kinds: map[string]kind.Kind{Name: w.kind}, Trees: w.trees, Now: time.Now,
		Tools: &validator.ToolHost{Host: host, URL: srv.URL},
	}
	return w
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
	d := w.trees.Add(w.t, map[string]string{
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
	d := w.trees.Add(w.t, map[string]string{AgentFile: script})
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
