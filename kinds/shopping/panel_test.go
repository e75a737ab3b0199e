package shopping_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/kinds/shopping"
	"github.com/agon-arena/agon/kinds/shopping/encode"
	"github.com/agon-arena/agon/kinds/shopping/play"
	"github.com/agon-arena/agon/kinds/shopping/problem"
	"github.com/agon-arena/agon/kinds/shopping/score"
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// flatEncoder is a broken encoder: all titles are alike to it, and it says that
// it is the one of the others.
type flatEncoder struct{}

func (flatEncoder) Name() string { return encode.NgramName }

func (flatEncoder) Encode(_ context.Context, titles []string) ([][]float32, error) {
	out := make([][]float32, len(titles))
	for i := range out {
		out[i] = []float32{1}
	}
	return out, nil
}

// titleProblems have a title as their only constraint. The first two are those
// of the product that alwaysFirst recommends.
func titleProblems(products []*shop.Product) []shop.Problem {
	var out []shop.Problem
	for i, p := range append([]*shop.Product{products[0]}, products...) {
		query := fmt.Sprintf("wish %d", i)
		out = append(out, shop.Problem{
			ProblemID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i+1), Query: query, Category: shop.CategoryProduct, Difficulty: "easy", Title: query,
			Reward: shop.Reward{One: true, Items: []shop.Item{{ProductID: p.ProductID, Title: []string{p.Title}}}},
		})
	}
	return out
}

const alwaysFirst = `from src.agent.agent_interface import create_dialogue_step, execute_tool_call, register_tool
register_tool("recommend_product", lambda product_ids: product_ids)
register_tool("terminate", lambda status="success": status)


def agent_main(p):
    done = [execute_tool_call("recommend_product", {"product_ids": "%s"}), execute_tool_call("terminate", {"status": "success"})]
    return [create_dialogue_step("I take it.", done, "", p["query"], 1)]
`

// titles is an arena whose problems have titles as their only constraint, played by three
// validators with boxes, gateways and keys of their own, one of them with a broken encoder.
type titles struct {
	s      *kit.Server
	arena  string
	sub    *client.Submission
	broken string // its validator
}

// playTitles has one submission played and decided in such an arena, whose file also has
// some lines.
func playTitles(ctx context.Context, t *testing.T, lines string) titles {
	t.Helper()
	o := kittest.Options(t.TempDir(), kinds.All())
	x, _, err := new(shopping.Floor).With(o).Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var products []*shop.Product
	for id := range x.IDs {
		p, err := x.Product(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		// Products of other kinds: the honest encoder tells them apart.
		if !slices.ContainsFunc(products, func(q *shop.Product) bool { return q.Category == p.Category }) {
			products = append(products, p)
		}
		if len(products) == 5 {
			break
		}
	}
	set := filepath.Join(t.TempDir(), "titles")
	if _, err := problem.WriteTasks(set, "test", titleProblems(products)); err != nil {
		t.Fatal(err)
	}
	arena := filepath.Join(t.TempDir(), "arena.toml")
	text := fmt.Sprintf("id = \"titles\"\nkind = \"shopping\"\ntitle = \"Titles\"\nnetuid = 5\nincentive = %q\nsets = [%q]\n%s\n[incentive_numbers]\nqualify = 0.1\n[judge]\ndemo = true\n[policy]\ntools = [\"%s\"]\n",
		play.RaceRule, set, lines, strings.Join(play.ToolNames(), `", "`))
	if err := os.WriteFile(arena, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o.Arenas = []string{arena}
	f, err := kit.LoadArenaFile(arena, o.Kits)
	if err != nil {
		t.Fatal(err)
	}
	s, end, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	work, stop := context.WithCancel(ctx)
	t.Cleanup(func() {
		stop()
		wg.Wait()
		end()
	})
	honest := shop.Encoder(encode.Ngram{})
	var broken string
	for i, enc := range []shop.Encoder{honest, honest, flatEncoder{}} {
		val, err := kit.LoadParty(s.Data.Path("wallets"), fmt.Sprintf("validator-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.EnsureSubnet(ctx, f.Arena(), val); err != nil {
			t.Fatal(err)
		}
		if enc != honest {
			broken = val.Hotkey.SS58()
		}
		c, err := client.New(s.URL(), val.Hotkey)
		if err != nil {
			t.Fatal(err)
		}
		k := shopping.Kit()
		k.New = func(p kit.Parts) kind.Kind {
			return play.New(play.Config{Rootfs: p.Rootfs, Grader: play.ShopGrader{
				Scorer: score.New(score.Config{Fix: score.Strict, Encoder: enc}), Catalogue: x, Rules: "titles",
			}})
		}
		data := t.TempDir()
		if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
			t.Fatal(err)
		}
		own := kittest.Options(data, kit.List{k})
		own.Parallel = 1
		wg.Go(func() {
			if err := roles.Validator(work, own, c, val.Hotkey, nil); err != nil {
				t.Error(err)
			}
		})
	}

	miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureRegistered(ctx, f.Arena(), miner); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.URL(), miner.Hotkey)
	if err != nil {
		t.Fatal(err)
	}
	for known := 0; known < 3; { // each validator is there to judge what another plays
		list, err := s.Platform.ValidatorStandings(ctx)
		if err != nil {
			t.Fatal(err)
		}
		known = len(list.Validators)
		again, done := context.WithTimeout(ctx, 50*time.Millisecond)
		_ = s.Platform.Wait(again, "")
		done()
	}
	sub, err := c.Submit(ctx, f.ID, client.SubmitRequest{Name: "always", Licence: "MIT", Files: []client.File{{
		Path: play.AgentFile, Content: fmt.Appendf(nil, alwaysFirst, products[0].ProductID),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for sub.State != agon.SubmissionScored {
		if ctx.Err() != nil {
			t.Fatalf("still %s: %v", sub.State, ctx.Err())
		}
		again, done := context.WithTimeout(ctx, time.Second)
		_ = s.Platform.Wait(again, "") // news or a second: each is looked at
		done()
		if sub, err = s.Platform.Submission(ctx, platform.Caller{}, sub.ID); err != nil {
			t.Fatal(err)
		}
	}
	return titles{s, f.ID, sub, broken}
}

// Three validators play one submission over HTTP; the encoder of one is broken. The
// platform names it and counts none of its results; oro.panel tells of the same one, and
// by which field.
func TestBrokenEncoderIsExcluded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w := playTitles(ctx, t, "replicas = 3\nrejudge = 0.0\nunjudged_seats = true")
	s, sub, broken := w.s, w.sub, w.broken
	// Two of six titles are those of what the agent takes; to the broken encoder all are.
	if sub.Solved == nil || *sub.Solved != 2 || *sub.Total != 6 {
		t.Errorf("solved %v of %v, score %v", *sub.Solved, *sub.Total, *sub.Score)
	}
	var named []string
	for _, x := range sub.Findings {
		if x.Code == platform.FindingDisagreement {
			named = append(named, x.Field)
			if !strings.Contains(x.Message, "on 4 of 6 tasks (the others disagree among themselves on 0 %)") {
				t.Errorf("the finding says %q", x.Message)
			}
		}
	}
	if !slices.Equal(named, []string{broken}) {
		t.Errorf("excluded %v, broken is %s", named, broken)
	}

	// The same runs, read as anybody may, through the rule that compares fields.
	runs, err := s.Platform.Runs(ctx, platform.Caller{}, w.arena, sub.ID, "", "", 10)
	if err != nil || len(runs.Items) != 3 {
		t.Fatalf("%v, %+v", err, runs)
	}
	var reports []score.Report
	var honestScore float64
	for _, r := range runs.Items {
		full, err := s.Platform.Run(ctx, platform.Caller{}, r.RunSpec.Run)
		if err != nil || len(full.List) != 1 {
			t.Fatalf("%v, %d attempts", err, len(full.List))
		}
		rep := score.Report{Validator: full.List[0].Validator, Records: map[string]score.Record{}}
		sum := 0.0
		for _, x := range full.Scores {
			rec := score.Record{}
			for _, field := range []string{"success", "gt", "rule", "title", "price"} {
				rec[field] = x.Metrics[field]
			}
			rep.Records[x.Task] = rec
			sum += x.Value
		}
		if rep.Validator != broken {
			honestScore = sum / 6
		}
		reports = append(reports, rep)
	}
	if *sub.Score != honestScore {
		t.Errorf("score %v, that of the honest is %v", *sub.Score, honestScore)
	}
	p, err := score.Agree(score.PanelRule{}, reports)
	if err != nil || len(p.Flagged) != 1 || p.Flagged[0].Validator != broken || p.Flagged[0].Differs != 4 || !slices.Equal(p.Flagged[0].Fields, []string{"rule", "success", "title"}) {
		t.Errorf("%v, %+v", err, p)
	}
}

// One validator's result alone takes no seat: a would-be champion is judged again by
// others from its evidence, and the honest score stands, whether the wrong one played or judged.
func TestResultsAreJudgedAgain(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	w := playTitles(ctx, t, "rejudge = 0.0")
	if *w.sub.Solved != 2 || *w.sub.Total != 6 || w.sub.Decision == nil || w.sub.Decision.Numbers["judged_again"] != 1 {
		t.Errorf("solved %d of %d, decision %+v", *w.sub.Solved, *w.sub.Total, w.sub.Decision)
	}
	runs, err := w.s.Platform.Runs(ctx, platform.Caller{}, w.arena, w.sub.ID, "", "", 10)
	if err != nil || len(runs.Items) != 1 {
		t.Fatalf("%v, %+v", err, runs)
	}
	list, err := w.s.Platform.Judgings(ctx, platform.Caller{}, runs.Items[0].RunSpec.Run)
	if err != nil || len(list) == 0 {
		t.Fatalf("%v, %d judgings", err, len(list))
	}
	for _, j := range list {
		if j.Against != "" && j.Against != w.broken || j.K == 3 && j.Against != w.broken {
			t.Errorf("held against %q, broken is %s", j.Against, w.broken)
		}
	}
}
