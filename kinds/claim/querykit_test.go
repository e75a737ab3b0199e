package claim

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/kinds/claim/data"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/sandbox/probe"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// The samples play every query of the demo in real boxes: who reads the sources
// beats who answers nothing, and structured answers agree with their schema.
func TestDemoQuery(t *testing.T) {
	root, err := rootfs.Ensure(t.Context(), rootfs.Config{})
	if err != nil {
		t.Fatalf("no root file system for boxes: %v", err)
	}
	d, _, err := probe.Probe(t.Context(), probe.Config{Rootfs: root, StateDir: t.TempDir()})
	if err != nil {
		t.Fatalf("no box: %v", err)
	}
	gw, err := gateway.New(gateway.Config{})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := shippedDocs(time.Now)
	if err != nil {
		t.Fatal(err)
	}
	host := tools.New(tools.Config{Search: docs, Headers: play.Headers()})
	srv := httptest.NewServer(host)
	defer func() { host.Stop(); srv.Close() }()
	means := map[string]float64{}
	for _, name := range []string{"silent", "reader"} {
		c := kittest.Case(t, QueryKit(), name)
		p := &validator.Player{
			Driver: d, Gateway: gw, Trees: c.Trees, Now: time.Now, Tools: &validator.ToolHost{Host: host, URL: srv.URL},
			Kinds: map[string]kind.Kind{play.QueryName: play.NewQuery(play.QueryConfig{Rootfs: root})},
		}
		att := p.Play(t.Context(), validator.Job{
			Run: agon.RunSpec{Run: name, Arena: c.Arena.ID, Tasks: c.Arena.Tasks, Policy: c.Arena.Policy}, Attempt: 1, Arena: c.Arena, Submission: c.Submission,
		})
		if att.Fault != agon.FaultNone || len(att.Scores) != len(c.Arena.Tasks) || len(att.Scores) < 6 {
			t.Fatalf("%s: fault %q %s, %d scores", name, att.Fault, att.Reason, len(att.Scores))
		}
		for _, s := range att.Scores {
			t.Logf("%s %s: %v %s", name, s.Task, s.Value, s.Detail)
			means[name] += s.Value / float64(len(att.Scores))
		}
	}
	if means["silent"] > 0.1 || means["reader"] < 0.6 {
		t.Errorf("means %v", means)
	}
	if list := play.CheckQuerySource(must(t, "template/agent.py")); len(list) > 0 {
		t.Errorf("template: %+v", list)
	}
}

func must(t *testing.T, name string) []byte {
	t.Helper()
	f, err := data.Query.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1<<20)
	n, _ := f.Read(b)
	return b[:n]
}
