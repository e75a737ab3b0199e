package commands_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/shopping/commands"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/clitest"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// reported is a /v1 with one submission that three validators played; the
// results of one are excluded.
func reported(t *testing.T) *httptest.Server {
	t.Helper()
	score := func(task string, value float64, metrics map[string]float64) agon.Score {
		return agon.Score{Task: task, Value: value, Solved: value > 0, Scorer: "shopping-1", Metrics: metrics}
	}
	run := func(id, validator string, hidden bool, list ...agon.Score) client.Run {
		r := client.Run{Run: agon.Run{RunSpec: agon.RunSpec{Run: id, Arena: "shop"}, Submission: "sub-1", State: agon.RunScored, Attempts: 2, Scores: list}}
		for _, s := range list {
			r.Tasks = append(r.Tasks, agon.TaskRef{Key: s.Task, Hidden: hidden})
		}
		r.List = []agon.Attempt{{Run: id, N: 1, Validator: "broken"}, {Run: id, N: 2, Validator: validator, Counted: true}}
		return r
	}
	full := func(gt, rule, ratio float64) map[string]float64 {
		return map[string]float64{"gt": gt, "rule": rule, "format": 1, "agentic_ratio": ratio}
	}
	runs := []client.Run{
		run("r1", "one", false, score("suite/product-easy-01", .8, full(1, 1, .5)), score("suite/product-medium-02", 0, full(0, .5, .25)), score("suite/shop-easy-03", 0, nil)),
		run("r2", "two", false, score("suite/product-easy-01", .8, full(1, 1, .5)), score("suite/product-medium-02", .8, full(1, 1, .75)), score("suite/shop-easy-03", 0, nil)),
		run("r3", "broken", false, score("suite/product-easy-01", 1, full(1, 1, 1)), score("suite/shop-easy-03", 1, full(1, 1, 1))),
		run("r4", "one", true, score("race-0001/voucher-easy-01", .8, map[string]float64{"gt": 1, "rule": 1, "agentic_ratio": .5})),
	}
	one := client.Submission{
		Submission: agon.Submission{ID: "sub-1", Arena: "shop", State: agon.SubmissionScored},
		Findings:   []agon.Finding{{Code: "validator_disagreement", Field: "broken", Warning: true}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/submissions/{id}", func(w http.ResponseWriter, r *http.Request) {
		x := one
		if x.ID = r.PathValue("id"); x.ID != "sub-1" {
			x.Findings = nil
		}
		send(w, 200, x)
	})
	mux.HandleFunc("GET /v1/runs", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("submission") != "sub-1" || r.URL.Query().Get("state") != "scored" {
			send(w, 200, client.Page[client.Run]{Items: []client.Run{}})
			return
		}
		bare := []client.Run{}
		for _, x := range runs { // a listing has no attempts
			x.List = nil
			bare = append(bare, x)
		}
		send(w, 200, client.Page[client.Run]{Items: bare})
	})
	for _, x := range runs {
		mux.HandleFunc("GET /v1/runs/"+x.RunSpec.Run, func(w http.ResponseWriter, _ *http.Request) { send(w, 200, x) })
	}
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

func TestShopReport(t *testing.T) {
	srv, home := reported(t), t.TempDir()
	var b strings.Builder
	for _, c := range []struct {
		name  string
		id    string
		width int
	}{{"terminal", "sub-1", 110}, {"narrow terminal", "sub-1", 40}, {"pipe", "sub-1", 0}, {"nothing yet", "sub-2", 0}} {
		s, out, errOut := iostreams.Test("")
		if c.width > 0 {
			s.ForceTTY(c.width)
		}
		getenv := func(k string) string { return map[string]string{"AGON_URL": srv.URL, "NO_COLOR": "1"}[k] }
		a := &cli.App{IO: s, Env: config.Env{Getenv: getenv, Dir: home, Home: home, UserCacheDir: home}, Extras: []func(*cli.App) []cli.Extra{commands.Of}}
		if code := a.Main(t.Context(), []string{"shop", "report", c.id}); code != 0 {
			t.Fatalf("%s: exit code %d: %s", c.name, code, errOut)
		}
		text := out.String()
		if c.width == 0 {
			text = clitest.Indent(text)
		}
		fmt.Fprintf(&b, "-- %s --\n%s%s", c.name, text, errOut)
	}
	clitest.Golden(t, filepath.Join("testdata", "golden", "report.txt"), b.String())
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
