package play

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/scripted"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping/door"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

func TestMain(m *testing.M) { kittest.Main(m) }

// shelf is a catalogue of a few products.
type shelf struct {
	products score.Products

	mu    sync.Mutex
	asked []string // guarded by mu
}

func (*shelf) Name() string { return "shelf" }

func (s *shelf) Answer(_ context.Context, tool string, args map[string]string) ([]byte, int, error) {
	s.mu.Lock()
	s.asked = append(s.asked, tool+" "+args["q"]+args["product_ids"])
	s.mu.Unlock()
	var out []*shop.Product
	for _, id := range []string{"100001", "100002", "100003"} {
		p := s.products[id]
		if tool == "find_product" && strings.Contains(p.Title, args["q"]) || tool != "find_product" && strings.Contains(args["product_ids"], id) {
			out = append(out, p)
		}
	}
	b, err := json.Marshal(out)
	return b, 200, err
}

func newShelf() *shelf {
	p := func(id, shopID, title string, price float64) *shop.Product {
		return &shop.Product{ProductID: id, ShopID: shopID, Title: title, Price: price, Service: []string{}}
	}
	return &shelf{products: score.Products{
		"100001": p("100001", "s1", "red lamp", 20), "100002": p("100002", "s1", "blue lamp", 30), "100003": p("100003", "s2", "green chair", 80),
	}}
}

// world is an engine around the kind: real boxes, a real gateway, a small shelf.
type world struct {
	t      testing.TB
	player *validator.Player
	gw     *gateway.Gateway
	kind   *Kind
	shelf  *shelf
	trees  kittest.Trees
	refs   []agon.TaskRef
}

func newWorld(t testing.TB, script string) *world {
	t.Helper()
	d, root := kittest.Driver(t)
	w := &world{t: t, shelf: newShelf(), trees: kittest.Trees{}}
	w.kind = New(Config{
		Rootfs: root, Model: scripted.Name, Workers: 4,
		Grader: ShopGrader{Scorer: score.New(score.Config{Fix: score.Strict}), Catalogue: w.shelf.products, Rules: "test"},
	})
	if script == "" {
		script = `{"version":1,"fallback":"no"}`
	}
	s, err := scripted.Parse([]byte(script), "json")
	if err != nil {
		t.Fatal(err)
	}
	w.gw, err = gateway.New(gateway.Config{Upstreams: []provider.Upstream{scripted.New(s)}, Tools: Tools(w.shelf), Dialects: door.Dialects()})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.gw.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.gw.Stop() })
	w.player = &validator.Player{Driver: d, Gateway: w.gw, Kinds: map[string]kind.Kind{Name: w.kind}, Trees: w.trees, Now: time.Now}
	return w
}

// task adds a problem whose answer is the product id.
func (w *world) task(query, id string) string {
	w.t.Helper()
	p := shop.Problem{
		ProblemID: fmt.Sprintf("00000000-0000-4000-8000-%012d", len(w.refs)+1), Query: query, Category: shop.CategoryProduct, Difficulty: "easy",
		Title: "Product", Reward: shop.Reward{One: true, Items: []shop.Item{{ProductID: id}}},
	}
	full, err := json.Marshal(p)
	if err != nil {
		w.t.Fatal(err)
	}
	shown, err := json.Marshal(p.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	key := fmt.Sprintf("t/p%d", len(w.refs))
	d := w.trees.Add(w.t, map[string]string{
		"task.toml": "version = \"1.0\"\n[agon]\nkind = \"shopping\"\n", "instruction.md": query, ProblemFile: string(shown), RewardFile: string(full),
	})
	w.refs = append(w.refs, agon.TaskRef{Key: key, Digest: d})
	return key
}

func policy() agon.Policy {
	return agon.Policy{
		Models: []string{"*"}, Tools: ToolNames(), Budget: agon.Budget{Micros: 50_000, Calls: 500},
		Agent: agon.Limits{WallMS: 10_000, MemoryBytes: 512 << 20, Pids: 64, DiskBytes: 64 << 20, Inodes: 8192},
	}
}

// result is what a play made of one problem.
type result struct {
	env   Envelope
	ev    Evidence
	score agon.Score
}

// play runs an agent over all problems by the engine's own code path.
func (w *world) play(agent string) (*validator.Attempt, []result) {
	w.t.Helper()
	return w.playWith(agent, policy())
}

func (w *world) playWith(agent string, pol agon.Policy) (*validator.Attempt, []result) {
	w.t.Helper()
	d := w.trees.Add(w.t, map[string]string{AgentFile: agent})
	a := w.player.Play(w.t.Context(), validator.Job{
		Run: agon.RunSpec{Run: "run-1", Arena: "a", Tasks: w.refs, Policy: pol}, Attempt: 1,
		Arena: agon.Arena{ID: "a", Kind: Name, Tasks: w.refs, Policy: pol}, Submission: agon.Submission{ID: "s", Digest: d},
	})
	out := make([]result, len(w.refs))
	for i := range w.refs {
		var err error
		if b := a.Files[episodeFile(i)]; b != nil {
			if out[i].env, err = ReadEnvelope(b); err != nil {
				w.t.Fatal(err)
			}
			if err := json.Unmarshal(a.Files[evidenceFile(i)], &out[i].ev); err != nil {
				w.t.Fatal(err)
			}
		}
		if i < len(a.Scores) {
			out[i].score = a.Scores[i]
		}
	}
	return a, out
}
