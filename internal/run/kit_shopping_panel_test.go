package run

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kind"
	"github.com/agon-arena/agon/kind/shopping"
	"github.com/agon-arena/agon/platform"
	"github.com/agon-arena/agon/shop"
	"github.com/agon-arena/agon/shop/encode"
	"github.com/agon-arena/agon/shop/problem"
	"github.com/agon-arena/agon/shop/score"
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

// Three validators with boxes, gateways and keys of their own play one
// submission over HTTP; the encoder of one is broken. The platform names it and
// counts none of its results; oro.panel tells of the same one, and by which field.
func TestBrokenEncoderIsExcluded(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	o := testOptions(t.TempDir())
	o.floor()
	d, root, err := openDriver(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	x, _, err := o.floor().open(ctx)
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
	f := ArenaFile{ID: "titles", Kind: shopping.Name, Title: "Titles", Netuid: 5, Incentive: shopping.RaceRule, Sets: []string{set}, Replicas: 3}
	f.defaults()
	f.Policy.Tools = shopping.ToolNames()
	s, err := openServer(ctx, o, kinds(o, ""))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.openArena(ctx, f, nil); err != nil {
		t.Fatal(err)
	}

	var wg sync.WaitGroup
	defer wg.Wait()
	work, stop := context.WithCancel(ctx)
	defer stop()
	honest := shop.Encoder(encode.Ngram{})
	var broken string
	for i, enc := range []shop.Encoder{honest, honest, flatEncoder{}} {
		val, err := loadParty(s.data.Path("wallets"), fmt.Sprintf("validator-%d", i))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ensureSubnet(ctx, f.Arena(), val); err != nil {
			t.Fatal(err)
		}
		if enc != honest {
			broken = val.Hotkey.SS58()
		}
		k := shopping.New(shopping.Config{Rootfs: root, Grader: shopping.ShopGrader{
			Scorer: score.New(score.Config{Fix: score.Strict, Encoder: enc}), Catalogue: x, Rules: "titles",
		}})
		c, err := client.New(s.url(), val.Hotkey)
		if err != nil {
			t.Fatal(err)
		}
		dir := s.data.Path("validator", fmt.Sprint(i))
		source, err := remoteSource(c, dir)
		if err != nil {
			t.Fatal(err)
		}
		p, err := newPlayer(ctx, o, d, root, map[string]kind.Kind{k.Name(): k}, source, filepath.Join(dir, "trees"))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer p.close()
			newValidator(o, p, c, nil, 1).Run(work)
		})
	}

	miner, err := loadParty(s.data.Path("wallets"), "miner")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ensureRegistered(ctx, f.Arena(), miner); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.url(), miner.Hotkey)
	if err != nil {
		t.Fatal(err)
	}
	sub, err := c.Submit(ctx, f.ID, client.SubmitRequest{Name: "always", Licence: "MIT", Files: []client.File{{
		Path: shopping.AgentFile, Content: fmt.Appendf(nil, alwaysFirst, products[0].ProductID),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for sub.State != agon.SubmissionScored {
		if ctx.Err() != nil {
			t.Fatalf("still %s: %v", sub.State, ctx.Err())
		}
		again, done := context.WithTimeout(ctx, time.Second)
		_ = s.platform.Wait(again, "") // news or a second: each is looked at
		done()
		if sub, err = s.platform.Submission(ctx, platform.Caller{}, sub.ID); err != nil {
			t.Fatal(err)
		}
	}
	// Two of six titles are those of what the agent takes; to the broken encoder all are.
	if sub.Solved == nil || *sub.Solved != 2 || *sub.Total != 6 {
		t.Errorf("solved %v of %v, score %v", *sub.Solved, *sub.Total, *sub.Score)
	}
	var named []string
	for _, x := range sub.Findings {
		if x.Code == platform.FindingDisagreement {
			named = append(named, x.Field)
			if !strings.Contains(x.Message, "on 4 of 6 tasks (among themselves they differ on 0 %)") {
				t.Errorf("the finding says %q", x.Message)
			}
		}
	}
	if !slices.Equal(named, []string{broken}) {
		t.Errorf("excluded %v, broken is %s", named, broken)
	}

	// The same runs, read as anybody may, through the rule that compares fields.
	runs, err := s.platform.Runs(ctx, platform.Caller{}, f.ID, sub.ID, "", "", 10)
	if err != nil || len(runs.Items) != 3 {
		t.Fatalf("%v, %+v", err, runs)
	}
	var reports []score.Report
	var honestScore float64
	for _, r := range runs.Items {
		full, err := s.platform.Run(ctx, platform.Caller{}, r.RunSpec.Run)
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
