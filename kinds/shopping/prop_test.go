package shopping_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/agon-arena/agon/kinds/shopping/shop"
)

// A seller writes the words of what is wished for into the title of something else, and
// an agent that knows how agon-ngram-1 compares takes that. To it all is solved; where
// it counts it decides nothing.
func TestSpelledTitlesWinNothing(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	wished, spelled := "red desk lamp with switch", "sticker: red desk lamp with switch"
	products := []shop.Product{
		{ProductID: "1", ShopID: "1", Title: wished, Price: 500},
		{ProductID: "2", ShopID: "2", Title: spelled, Price: 5},
	}
	var lines []byte
	for _, p := range products {
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, b...), '\n')
	}
	set, shelf := filepath.Join(dir, "titles"), filepath.Join(dir, "catalogue.jsonl")
	if err := os.WriteFile(shelf, lines, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := problem.WriteTasks(set, "test", []shop.Problem{{
		ProblemID: "00000000-0000-4000-8000-000000000001", Query: "a lamp", Category: shop.CategoryProduct, Difficulty: "easy", Title: "a lamp",
		Reward: shop.Reward{One: true, Items: []shop.Item{{ProductID: "1", Title: []string{wished}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	o := kittest.Options(t.TempDir(), kinds.All())
	getenv := o.Getenv
	o.Getenv = func(name string) string {
		switch {
		case name == "AGON_SHOP_CATALOGUE":
			return shelf
		case strings.HasPrefix(name, "AGON_ENCODER_"):
			return ""
		}
		return getenv(name)
	}
	for i, id := range []string{"paid", "shown"} {
		path := filepath.Join(dir, id+".toml")
		text := fmt.Sprintf("id = %q\nkind = \"shopping\"\ntitle = %q\nnetuid = %d\nincentive = %q\nsets = [%q]\n[policy]\ntools = [\"%s\"]\n[judge]\ndemo = %v\n",
			id, id, 5+i, play.RaceRule, set, strings.Join(play.ToolNames(), `", "`), id == "shown")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Arenas = append(o.Arenas, path)
	}
	s, end, err := roles.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	c := map[string]*client.Client{}
	ids := map[string]string{}
	for i, id := range []string{"paid", "shown"} {
		f, err := kit.LoadArenaFile(o.Arenas[i], o.Kits)
		if err != nil {
			t.Fatal(err)
		}
		for _, role := range []string{"validator", "miner"} {
			p, err := kit.LoadParty(s.Data.Path("wallets"), role)
			if err != nil {
				t.Fatal(err)
			}
			if role == "validator" {
				err = s.EnsureSubnet(ctx, f.Arena(), p)
			} else {
				_, err = s.EnsureRegistered(ctx, f.Arena(), p)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c[role], err = client.New(s.URL(), p.Hotkey); err != nil {
				t.Fatal(err)
			}
		}
		sub, err := c["miner"].Submit(ctx, id, client.SubmitRequest{Name: "speller", Licence: "MIT", Files: []client.File{{
			Path: play.AgentFile, Content: fmt.Appendf(nil, alwaysFirst, "2"),
		}}})
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = sub.ID
	}
	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	played := make(chan error, 1)
	go func() { played <- roles.Validator(work, o, c["validator"], val.Hotkey, nil) }()
	defer func() {
		stop()
		if err := <-played; err != nil {
			t.Error(err)
		}
	}()
	for id, sub := range ids {
		x, err := s.Platform.Submission(ctx, platform.Caller{}, sub)
		for ; err == nil && x.Score == nil; x, err = s.Platform.Submission(ctx, platform.Caller{}, sub) {
			if ctx.Err() != nil {
				t.Fatalf("%s: still %s", id, x.State)
			}
			again, done := context.WithTimeout(ctx, time.Second)
			_ = s.Platform.Wait(again, "") // news or a second: each is looked at
			done()
		}
		if err != nil {
			t.Fatal(err)
		}
		if *x.Solved != 1 { // or the attack is none
			t.Fatalf("%s: solved %v, score %v", id, *x.Solved, *x.Score)
		}
		a, err := s.Platform.Arena(ctx, id)
		if err != nil || a.Judge == nil || !strings.Contains(a.Judge.Sentence, encode.NgramName) {
			t.Fatalf("%v, %+v", err, a.Judge)
		}
		if seated := x.Decision != nil && x.Decision.Outcome == agon.TookSeat; seated != (id == "shown") || a.Judge.Seats != (id == "shown") {
			t.Errorf("%s: decision %+v, %+v", id, x.Decision, a.Judge)
		}
	}
}

// Which encoder a server has is read where it judges, and not by who asked first what
// the kind is.
func TestPropOfHost(t *testing.T) {
	k := shopping.Kit()
	if k.New(kit.Parts{}).Name() != play.Name {
		t.Fatal("not the kind")
	}
	service := httptest.NewServer(http.NotFoundHandler())
	defer service.Close()
	env := map[string]string{"AGON_ENCODER_URL": service.URL, "AGON_ENCODER_MODEL": "real"}
	o := kit.Options{Getenv: func(name string) string { return env[name] }}
	x := k.New(o.Parts("")).(kind.Propped)
	if p := x.Prop(); p != nil {
		t.Errorf("with an encoder: %+v", p)
	}
	if x.RestsOnProp("shopping-1+strict+demo+real+rule-1") || !x.RestsOnProp("shopping-1+strict+demo+"+encode.NgramName+"+rule-1") {
		t.Error("scorers are taken for others")
	}
	env = map[string]string{}
	if p := shopping.Kit().New(o.Parts("")).(kind.Propped).Prop(); p == nil || !strings.Contains(p.Sentence(false), "needs an encoder") || !strings.Contains(p.Sentence(true), "demo") {
		t.Errorf("without an encoder: %+v", p)
	}
	env = map[string]string{"AGON_ENCODER_VECTORS": filepath.Join(t.TempDir(), "none")}
	if p := shopping.Kit().New(o.Parts("")).(kind.Propped).Prop(); p == nil || !strings.Contains(p.Why, "cannot be opened") {
		t.Errorf("with one that is not there: %+v", p)
	}
}
