package validator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// Batches are bounded in number and in bytes; one event always goes.
func TestUnsent(t *testing.T) {
	r := &recorder{run: "r", attempt: 1, now: time.Now}
	big := json.RawMessage(`"` + string(bytes.Repeat([]byte("x"), 900)) + `"`)
	for range 5 {
		r.Record("note", "", big)
	}
	var sizes []int
	for {
		evs, more := r.unsent(3, 3000)
		sizes = append(sizes, len(evs))
		r.ack(len(evs))
		if !more {
			break
		}
	}
	if len(sizes) != 3 || sizes[0] != 2 || sizes[1] != 2 || sizes[2] != 1 {
		t.Errorf("batches %v", sizes)
	}
	r.Record("note", "", big)
	if evs, more := r.unsent(3, 1); len(evs) != 1 || more {
		t.Errorf("a large event is stuck: %d %v", len(evs), more)
	}
	r.ack(1)
	if evs, more := r.unsent(3, 1); len(evs) != 0 || more {
		t.Errorf("nothing is left, got %d %v", len(evs), more)
	}
	if ev := r.add("note", "", big); ev.Seq != 7 || len(r.rest()) != 1 {
		t.Errorf("event %d, %d held: what was acknowledged is gone, and the numbers go on", ev.Seq, len(r.rest()))
	}
	r.Record(agon.EventPhase, "", map[string]string{"phase": "playing"})
	r.ack(2)
	if at := r.phases(); len(at) != 1 || at[0].Seq != 8 || len(r.rest()) != 0 {
		t.Errorf("phases %v: a trace is drawn after all was acknowledged", at)
	}
}

// The evidence of an attempt is that of all its sessions, in whatever order they
// were opened: one that the provider left in the lurch to its end is enough.
func TestEvidenceOfSessions(t *testing.T) {
	down := gateway.Evidence{Calls: 2, ProviderErrors: 1, CanaryFailed: true, LastError: "server"}
	back := gateway.Evidence{Calls: 3, ProviderErrors: 1, CanaryFailed: true, Recovered: true, LastError: "timeout"}
	flaky := gateway.Evidence{Calls: 2, ProviderErrors: 1, Recovered: true, LastError: "server"} // its canary held
	fine := gateway.Evidence{Calls: 5, AgentErrors: 1}
	for _, c := range []struct {
		name     string
		sessions []gateway.Evidence
		calls    int
		failed   bool
		back     bool
		want     agon.Fault
	}{
		{"down", []gateway.Evidence{down}, 2, true, false, agon.FaultProvider},
		{"back", []gateway.Evidence{back}, 3, true, true, agon.FaultAgent},
		{"down, then back", []gateway.Evidence{down, back}, 5, true, false, agon.FaultProvider},
		{"back, then down", []gateway.Evidence{back, down}, 5, true, false, agon.FaultProvider},
		{"back, down, back", []gateway.Evidence{back, down, back}, 8, true, false, agon.FaultProvider},
		{"both back", []gateway.Evidence{back, back}, 6, true, true, agon.FaultAgent},
		{"down, then fine", []gateway.Evidence{down, fine}, 7, true, false, agon.FaultProvider},
		{"fine, then down", []gateway.Evidence{fine, down}, 7, true, false, agon.FaultProvider},
		{"flaky, then down", []gateway.Evidence{flaky, down}, 4, true, false, agon.FaultProvider},
		{"down, then flaky", []gateway.Evidence{down, flaky}, 4, true, false, agon.FaultProvider},
		{"fine, then back", []gateway.Evidence{fine, back}, 8, true, true, agon.FaultAgent},
		{"flaky", []gateway.Evidence{flaky}, 2, false, false, agon.FaultAgent},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &Player{Driver: fake.New(fake.Config{}), Gateway: &sessions{ev: c.sessions}, Now: time.Now}
			e := &env{p: p, rec: &recorder{now: time.Now}, phase: PhasePlay}
			for i := range c.sessions {
				if _, err := e.Door(t.Context(), fmt.Sprintf("set/%d", i), "127.0.0.1:8000"); err != nil {
					t.Fatal(err)
				}
			}
			o, _, _, _ := e.close()
			if g := o.Gateway; g.Calls != c.calls || g.CanaryFailed != c.failed || g.Recovered != c.back || (g.LastError == "") != (g.ProviderErrors == 0) {
				t.Errorf("evidence %+v", g)
			}
			o.AgentStarted = true
			if f, why := AssignFault(o, agon.Record{Outcome: "raised"}, nil, nil, false); f != c.want {
				t.Errorf("fault %q (%s), want %q", f, why, c.want)
			}
		})
	}
}

// A provider that failed and then served again is not to blame for what came after.
func TestRecoveredProviderIsNotToBlame(t *testing.T) {
	rec := agon.Record{Outcome: "raised"}
	o := Observed{AgentStarted: true, Gateway: gateway.Evidence{ProviderErrors: 1, CanaryFailed: true, LastError: "server"}}
	if f, _ := AssignFault(o, rec, nil, nil, false); f != agon.FaultProvider {
		t.Errorf("down to the end: %s", f)
	}
	o.Gateway.Recovered = true
	if f, _ := AssignFault(o, rec, nil, nil, false); f != agon.FaultAgent {
		t.Errorf("served again: %s", f)
	}
}

// dirTrees serves one directory for every tree.
type dirTrees string

func (d dirTrees) Tree(context.Context, agon.Digest) (string, error) { return string(d), nil }

// A task that its kind cannot play is the task's fault, not the agent's.
func TestTaskIsCheckedByItsKind(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"task.toml": "[agon]\nkind = \"chess\"\n", "instruction.md": "Win.\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		check func(*task.Task) error
		want  agon.Fault
	}{
		{nil, ""},
		{task.Form{}.Check, ""},
		{task.Form{Files: []string{"board"}, Limit: 9}.Check, agon.FaultTask},
	} {
		e := &env{p: &Player{Trees: dirTrees(dir), CheckTask: c.check, Now: time.Now}, rec: &recorder{now: time.Now}}
		tk, err := e.Task(t.Context(), agon.TaskRef{Key: "set/a"})
		if (err == nil) != (c.want == "") || (tk == nil) != (err != nil) {
			t.Errorf("want fault %q: %v, %v", c.want, tk, err)
		}
		if f, _ := AssignFault(e.obs, agon.Record{Outcome: "ok"}, err, nil, false); f != c.want {
			t.Errorf("fault %q, want %q", f, c.want)
		}
	}
}

// A box of an agent gets the arena's libraries or is not started, which is never
// the agent's fault; other boxes do without.
func TestLibrariesOfAgents(t *testing.T) {
	p := &Player{Driver: fake.New(fake.Config{}), Now: time.Now}
	e := &env{p: p, rec: &recorder{now: time.Now}, phase: PhasePlay}
	e.job.Run.Policy.Libraries = &agon.Libraries{List: agon.Sum([]byte("x"))}
	spec := sandbox.Spec{Name: "judge", Rootfs: "/"}
	if _, err := e.Box(t.Context(), spec); err != nil {
		t.Errorf("a box without a door: %v", err)
	}
	spec.Doors = []sandbox.Door{{Listen: "127.0.0.1:8000", Target: "http://127.0.0.1:1"}}
	if _, err := e.Box(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "installs none") {
		t.Errorf("%v", err)
	}
	o, _, _, _ := e.close()
	if f, why := AssignFault(o, agon.Record{}, errors.New("no box"), nil, false); f != agon.FaultValidator || !strings.Contains(why, "libraries") {
		t.Errorf("%s, %s", f, why)
	}
}
