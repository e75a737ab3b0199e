package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
)

// Row 38 from the client's side: peer-evaluate-once finds another miner's
// submission, measures its change in a clean clone and reports it.
func TestPeerEvaluateOnce(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["competition_mode"] = "peer_evaluation"; m["min_peer_evaluations"] = 2 })
	alice := f.miner("alice")
	s := f.submit(alice, task.ID, patch("42"))
	agent := func(name, command string) *miner.Agent {
		return &miner.Agent{
			Client: f.miner(name), Command: command, Mode: miner.ModeManaged, Slug: "toy", Root: filepath.Join(t.TempDir(), "w"), Sidecar: "submission.json",
			Result: "submission_result.json", MaxLog: 1000, CoordinatorURL: f.url, Now: time.Now, Out: io.Discard,
		}
	}
	const measure = `test -s patch.diff -a -s detail.json -a -s onboard.md -a -s {intro_path_quoted} && test -d {repo_dir_quoted}/.git &&
n=$(sed -n 's/^x = //p' {repo_dir_quoted}/src/a.py) && echo "{\"status\": \"accepted\", \"observed_metrics\": {\"size\": $n}, \"notes\": \"measured\"}" > "$BITSOTA_AGENT_SUBMISSION_PATH"`
	if _, err := agent("alice", measure).Evaluate(t.Context()); !errors.Is(err, miner.ErrNothingToEvaluate) {
		t.Errorf("one's own: %v", err)
	}
	for command, want := range map[string]string{
		"true": "left no peer_review.json", "exit 3": "command failed", `echo '{"status":"accepted","observed_metrics":{}}' > {submission_path}`: "has no size",
		`echo '{"status":"fine"}' > {submission_path}`: "want accepted or rejected", `mkfifo {submission_path}`: "not a regular file",
	} {
		if _, err := agent("bob", command).Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", command, err)
		}
	}
	out, err := agent("bob", measure).Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{`"task":`, `"submission":`, `"detail":`, `"review":`, `"peer_evaluation":`, `"consensus":`} {
		if !bytes.Contains(b, []byte(key)) {
			t.Errorf("no %s in %s", key, b)
		}
	}
	if out.Submission.ID != s.ID || out.Review.Notes != "measured" || f.submission(s.ID).Status != "pending_verification" {
		t.Errorf("%+v", out.Review)
	}
	if _, err := agent("bob", measure).Evaluate(t.Context()); !errors.Is(err, miner.ErrNothingToEvaluate) {
		t.Errorf("a second time: %v", err)
	}
	// A loop evaluates first, and goes on with its own work.
	var printed bytes.Buffer
	carol := agent("carol", `if test -f patch.diff; then `+measure+`; else exit 9; fi`)
	carol.Peers, carol.Out = true, &printed
	if err := carol.Loop(t.Context(), 2, time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := f.submission(s.ID); got.Status != "accepted" || got.Observed["size"] != 42 || !strings.Contains(printed.String(), `"peer_evaluation": {`) || !strings.Contains(printed.String(), "exit status 9") {
		t.Errorf("%+v\n%s", got, printed.String())
	}
	other := f.task(func(m map[string]any) { m["slug"] = "replayed" })
	a := agent("bob", measure)
	a.Slug = other.Slug
	if _, err := a.Evaluate(t.Context()); err == nil || !strings.Contains(err.Error(), "validators replay it") {
		t.Errorf("a task that validators replay: %v", err)
	}
}

// Who evaluates a submission sees its patch; others do not before it is decided.
func TestPeersSeeThePatch(t *testing.T) {
	f := open(t)
	task := f.task(func(m map[string]any) { m["competition_mode"] = "peer_evaluation" })
	alice, bob := f.miner("alice"), f.miner("bob")
	s := f.submit(alice, task.ID, patch("42"))
	second := f.miner("alice-two")
	f.led.mu.Lock()
	f.led.cold[f.key("alice-two").SS58()] = f.key("alice/cold").SS58()
	f.led.mu.Unlock()
	stranger := &miner.Client{URL: f.url, Key: f.key("stranger"), Now: f.clock.Now}
	for name, c := range map[string]struct {
		client *miner.Client
		sees   bool
	}{"the miner": {alice, true}, "a peer": {bob, true}, "another key of its coldkey": {second, false}, "a stranger": {stranger, false}} {
		b, err := c.client.Do(t.Context(), "GET", "/api/v1/submissions/"+s.ID+"/detail", nil, nil, true)
		var d coordinator.Detail
		if err != nil || json.Unmarshal(b, &d) != nil || (d.Submission.Patch != nil) != c.sees {
			t.Errorf("%s: %v %v", name, err, d.Submission.PatchHidden)
		}
	}
}
