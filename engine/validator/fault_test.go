package validator

import (
	"errors"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway"
	"github.com/agon-arena/agon/sandbox"
)

func TestAssignFault(t *testing.T) {
	boom := errors.New("boom")
	started := Observed{AgentStarted: true}
	with := func(o Observed, f func(*Observed)) Observed { f(&o); return o }
	exit := func(x sandbox.Exit) []PhasedExit { return []PhasedExit{{PhasePlay, x}} }
	end := func(x sandbox.End) []PhasedEnd { return []PhasedEnd{{PhasePlay, x}} }
	outage := gateway.Evidence{ProviderErrors: 3, LastError: "payment", CanaryFailed: true}
	for _, c := range []struct {
		name          string
		o             Observed
		outcome       string
		play, judge   error
		solved        bool
		want          agon.Fault
		moveBlameFrom string // documents what the agent tried
	}{
		{name: "solved", o: started, outcome: "ok", solved: true, want: agon.FaultNone},
		{name: "unsolved", o: started, outcome: "ok", want: agon.FaultNone},
		{name: "empty patch", o: started, outcome: "empty", want: agon.FaultNone},
		{name: "agent raised", o: started, outcome: "raised", want: agon.FaultAgent},
		{name: "unknown outcome word", o: started, outcome: "provider_error", want: agon.FaultAgent, moveBlameFrom: "a result file that names a provider"},
		{name: "kind error after start", o: started, play: boom, want: agon.FaultAgent},
		{name: "kind error before start", play: boom, want: agon.FaultValidator},
		{name: "bad outcome but never started", outcome: "raised", want: agon.FaultValidator},
		{name: "own memory limit", o: with(started, func(o *Observed) {
			o.Exits = exit(sandbox.Exit{Code: 137, Limit: "memory"})
			o.Ends = end(sandbox.End{Ended: true, Limit: "memory"})
		}), outcome: "oom", want: agon.FaultAgent},
		{name: "killed itself", o: with(started, func(o *Observed) { o.Exits = exit(sandbox.Exit{Code: 137, Signal: 9}) }), outcome: "killed", want: agon.FaultAgent},
		{name: "box killed from outside", o: with(started, func(o *Observed) { o.Ends = end(sandbox.End{Ended: true, Killed: "killed"}) }), outcome: "killed", want: agon.FaultValidator},
		{name: "host out of memory", o: with(started, func(o *Observed) { o.Ends = end(sandbox.End{Ended: true, Killed: "host_oom"}) }), outcome: "killed", want: agon.FaultValidator},
		{name: "host disk full", o: with(started, func(o *Observed) { o.Ends = end(sandbox.End{Ended: true, Killed: "host_disk"}) }), outcome: "raised", want: agon.FaultValidator},
		{name: "runtime client killed", o: with(started, func(o *Observed) { o.Exits = exit(sandbox.Exit{Code: 137, Lost: "driver_died"}) }), outcome: "killed", want: agon.FaultValidator},
		{name: "outage that ended before the agent did", o: with(started, func(o *Observed) { o.Gateway = outage; o.Gateway.Recovered = true }), outcome: "raised", want: agon.FaultAgent},
		{name: "driver refused", o: with(started, func(o *Observed) { o.Notes = []Note{{PhaseJudge, agon.FaultValidator, "disk full"}} }), outcome: "ok", judge: boom, want: agon.FaultValidator},
		{name: "driver refused and the kind went on", o: with(started, func(o *Observed) { o.Notes = []Note{{PhasePlay, agon.FaultValidator, "disk full"}} }), outcome: "ok", want: agon.FaultValidator},
		{name: "driver refused and the agent had full marks", o: with(started, func(o *Observed) { o.Notes = []Note{{PhasePlay, agon.FaultValidator, "disk full"}} }), outcome: "ok", solved: true, want: agon.FaultValidator},
		{name: "tree not served and the kind blames the agent", o: with(started, func(o *Observed) { o.Notes = []Note{{PhasePlay, agon.FaultPlatform, "404"}} }), outcome: "raised", want: agon.FaultPlatform},
		{name: "the first of two notes counts", o: with(started, func(o *Observed) {
			o.Notes = []Note{{PhasePlay, agon.FaultTask, "bad toml"}, {PhaseJudge, agon.FaultPlatform, "404"}}
		}), outcome: "ok", want: agon.FaultTask},
		{name: "task unreadable", o: Observed{Notes: []Note{{PhasePlay, agon.FaultTask, "bad toml"}}}, play: boom, want: agon.FaultTask},
		{name: "tree not served", o: Observed{Notes: []Note{{PhasePlay, agon.FaultPlatform, "404"}}}, play: boom, want: agon.FaultPlatform},
		{name: "outage and canary", o: with(started, func(o *Observed) { o.Gateway = outage }), outcome: "raised", want: agon.FaultProvider},
		{name: "outage, unsolved", o: with(started, func(o *Observed) { o.Gateway = outage }), outcome: "ok", want: agon.FaultProvider},
		{name: "outage, solved all the same", o: with(started, func(o *Observed) { o.Gateway = outage }), outcome: "ok", solved: true, want: agon.FaultNone},
		{name: "errors without canary", o: with(started, func(o *Observed) { o.Gateway = gateway.Evidence{ProviderErrors: 9} }), outcome: "raised", want: agon.FaultAgent, moveBlameFrom: "provoked upstream errors"},
		{name: "agent's own bad requests", o: with(started, func(o *Observed) { o.Gateway = gateway.Evidence{AgentErrors: 50} }), outcome: "raised", want: agon.FaultAgent},
		{name: "judge failed before code ran", o: started, outcome: "ok", judge: boom, want: agon.FaultValidator},
		{name: "code under test broke its grading", o: with(started, func(o *Observed) { o.JudgeStarted = true }), outcome: "ok", judge: boom, want: agon.FaultAgent},
		{name: "judge box killed from outside", o: with(started, func(o *Observed) {
			o.JudgeStarted = true
			o.Ends = []PhasedEnd{{PhaseJudge, sandbox.End{Ended: true, Killed: "killed"}}}
		}), outcome: "ok", judge: boom, want: agon.FaultValidator},
		{name: "stopped by the validator", o: with(started, func(o *Observed) { o.Interrupted = true }), outcome: "raised", want: agon.FaultValidator},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, reason := AssignFault(c.o, agon.Record{Outcome: c.outcome}, c.play, c.judge, c.solved)
			if got != c.want {
				t.Errorf("fault %q (%s), want %q", got, reason, c.want)
			}
			if got != agon.FaultNone && reason == "" {
				t.Error("no reason given")
			}
		})
	}
}

// No outcome word and no kind error changes what outside evidence says, and
// without outside evidence none of them is ever ours once the agent started.
func FuzzOutcomeMovesNothing(f *testing.F) {
	f.Add("raised", "x")
	f.Add("provider", "402 payment required")
	f.Fuzz(func(t *testing.T, outcome, msg string) {
		for _, play := range []error{nil, errors.New(msg)} {
			got, _ := AssignFault(Observed{AgentStarted: true}, agon.Record{Outcome: outcome, Detail: msg}, play, nil, false)
			if got.Ours() {
				t.Fatalf("outcome %q moved blame to %q", outcome, got)
			}
		}
	})
}
