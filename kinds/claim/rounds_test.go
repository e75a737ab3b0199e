package claim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/engine/validator"
	"github.com/agon-arena/agon/kinds/claim"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/claim/supply"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// example is the folder that these tests play, and docs/examples/rounds/README.md tells of.
const example = "../../docs/examples/rounds"

// towns makes n documents about towns that are nowhere, and the script of the models
// that make claims of them: four of each, of which two are true. The reference of
// the last is weak at first: its auditor objects, and its author mends it.
func towns(t *testing.T, n int) (files map[string]string) {
	t.Helper()
	files = map[string]string{}
	type rule struct {
		Task    string `json:"task"`
		TaskRE  string `json:"task_re,omitempty"`
		Content string `json:"content"`
	}
	var rules []rule
	say := func(match, in string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, rule{match, in, string(b)})
	}
	for i := range n {
		town := fmt.Sprintf("%s%s", []string{"Ald", "Brack", "Corn", "Dun", "Elm", "Fen", "Gar", "Holm"}[i%8], []string{"mouth", "ford", "wick", "stead", "haven"}[i/8%5])
		ferry, tower := 211+37*i, 1701+3*i
		house := []string{"mill", "forge", "inn", "brewery", "school", "theatre", "laundry", "quarry"}[i%8]
		owner := []string{"widow", "captain", "painter", "doctor", "singer"}[i/8%5]
		harm := []string{"ice", "hail", "frost", "flood", "fog", "mud", "storm", "snow"}[(i+i/8)%8]
		lost := []string{"boats", "bridges", "carts", "roofs", "fences"}[i/8%5]
		facts := []string{
			fmt.Sprintf("On a working day the ferry of %s takes %d people over the river, the harbour office says.", town, ferry),
			fmt.Sprintf("The tower of %s was finished in %d and has been white ever since.", town, tower),
			fmt.Sprintf("In %s the %s belongs to a %s, while the bakery belongs to a cousin.", town, house, owner),
			fmt.Sprintf("Last winter %s lost %s to %s, and no house to fire.", town, lost, harm),
		}
		text := fmt.Sprintf("url: https://towns.example/%d\ntitle: The almanac of %s\ndate: 2026-01-01\n\n%s\n", i, town, strings.Join(facts, " "))
		files[fmt.Sprintf("documents/%02d.md", i)] = text
		var list []map[string]any
		for k, c := range []struct {
			claim string
			true  bool
		}{
			{fmt.Sprintf("The ferry of %s carries %d people on a working day.", town, ferry), true},
			{fmt.Sprintf("The white tower of %s dates from %d.", town, tower+2), false},
			{fmt.Sprintf("The %s of %s is owned by the cousin of a %s.", house, town, owner), false},
			{fmt.Sprintf("Damage by %s to %s in %s exceeded any by flames.", harm, lost, town), true},
		} {
			list = append(list, map[string]any{"factoid": facts[k], "claim": c.claim, "true": c.true})
			verdict := -1
			if c.true {
				verdict = 1
			}
			answer := map[string]any{"verdict": verdict, "justification": "The almanac says: " + facts[k], "quotes": []string{facts[k]}, "ambiguous": false}
			in := fmt.Sprintf(`"claim":"%s"`, c.claim)
			say("and an auditor objected", in, answer)
			if k == 3 {
				answer["justification"] = "It says so."
			}
			say("You give the reference answer", in, answer)
		}
		say("You write claims", fmt.Sprintf(`"title":"The almanac of %s"`, town), map[string]any{"claims": list})
	}
	say("You audit the reference", `"justification":"It says so\."`, map[string]any{"sound": false, "fault": "It names no fact."})
	say("You audit the reference", "", map[string]any{"sound": true, "fault": ""})
	b, err := json.MarshalIndent(map[string]any{"version": 1, "rule": rules}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	files["script.json"] = string(b) + "\n"
	return files
}

// The example's documents, and the replies of the models that make claims of them, are
// those of towns. UPDATE_GOLDEN=1 writes them anew.
func TestTowns(t *testing.T) {
	for name, text := range towns(t, 40) {
		at := filepath.Join(example, name)
		if os.Getenv("UPDATE_GOLDEN") != "" {
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := os.ReadFile(at); err != nil || string(b) != text {
			t.Errorf("%s differs (UPDATE_GOLDEN=1 writes it anew) %v", name, err)
		}
	}
}

// clock is the platform's time, which a test sets forward.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time      { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) add(d time.Duration) { c.ahead.Add(int64(d)) }

// arena is a running `agon up` with one arena whose rounds come from a folder.
type arena struct {
	t     *testing.T
	ctx   context.Context
	s     *kit.Server
	f     kit.ArenaFile
	clock *clock

	mu   sync.Mutex
	said []string // what was said for people; guarded by mu
}

// costsShown looks whether each round that was drawn had its price said before.
func (x *arena) costsShown(rounds int) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	shown, drawn := 0, 0
	for _, line := range x.said {
		switch {
		case strings.Contains(line, "can cost at most $5.00 for models"):
			shown++
		case strings.Contains(line, "is drawn: "):
			if drawn++; shown < drawn {
				x.t.Errorf("a round was drawn before its cost was shown: %s", line)
			}
		}
	}
	if drawn != rounds {
		x.t.Errorf("%d rounds were said to be drawn, want %d", drawn, rounds)
	}
}

func readExample(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(example, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func openRounds(t *testing.T, tasks int) *arena {
	t.Helper()
	x := &arena{t: t, clock: &clock{}}
	opened := make(chan struct{})
	k := claim.Kit()
	supplied := k.Supply
	k.Supply = func(s *kit.Server, f kit.ArenaFile, a *agon.Arena) (platform.Supply, error) {
		x.s, x.f = s, f
		return supplied(s, f, a)
	}
	file := filepath.Join(t.TempDir(), "arena.toml")
	text := readExample(t, "arena.toml")
	docs, err := filepath.Abs(filepath.Join(example, "documents"))
	if err != nil {
		t.Fatal(err)
	}
	for was, is := range map[string]string{"hours = 0.05": "hours = 1", `path = "./documents"`: fmt.Sprintf("path = %q", docs), "tasks = 4": fmt.Sprintf("tasks = %d", tasks)} {
		if !strings.Contains(text, was) {
			t.Fatalf("the example's arena file has no %s", was)
		}
		text = strings.Replace(text, was, is, 1)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data, err := os.MkdirTemp("", "agon-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		t.Fatal(err)
	}
	o := kittest.Options(data, kit.List{k})
	o.Arenas, o.Now, o.Ready = []string{file}, x.clock.now, func(string) { close(opened) }
	o.Getenv = func(k string) string {
		switch {
		case k == "AGON_LLM_SCRIPT":
			return filepath.Join(example, "script.json")
		case strings.HasPrefix(k, "AGON_LLM_"):
			return ""
		}
		return os.Getenv(k)
	}
	o.Say = func(format string, args ...any) {
		t.Logf("agon: "+format, args...)
		x.mu.Lock()
		x.said = append(x.said, fmt.Sprintf(format, args...))
		x.mu.Unlock()
	}
	ctx, ended := upBeside(t, o)
	x.ctx = ctx
	select {
	case <-opened:
	case err := <-ended:
		ended <- err
		t.Fatalf("agon up ended: %v", err)
	}
	return x
}

// until waits for news of the platform until ok holds.
func (x *arena) until(what string, ok func() bool) {
	x.t.Helper()
	for start := time.Now(); !ok(); {
		if time.Since(start) > 8*time.Minute {
			x.t.Fatalf("waited for %s", what)
		}
		ctx, cancel := context.WithTimeout(x.ctx, 200*time.Millisecond)
		_ = x.s.Platform.Wait(ctx, "") // ends with news or after a moment: what is waited for is looked at again
		cancel()
	}
}

func (x *arena) enter(name, script string) string {
	x.t.Helper()
	miner, err := kit.LoadParty(x.s.Data.Path("wallets"), "miner-"+name)
	if err != nil {
		x.t.Fatal(err)
	}
	if _, err := x.s.EnsureRegistered(x.ctx, x.f.Arena(), miner); err != nil {
		x.t.Fatal(err)
	}
	c, err := client.New(x.s.URL(), miner.Hotkey)
	if err != nil {
		x.t.Fatal(err)
	}
	s, err := c.Submit(x.ctx, x.f.ID, client.SubmitRequest{Name: name, Licence: x.f.Licence, Files: []client.File{{Path: play.AgentFile, Content: []byte(script)}}})
	if err != nil {
		x.t.Fatal(err)
	}
	return s.ID
}

// shows looks for a text where anybody can read it.
func (x *arena) shows(path, want string) {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.ctx, http.MethodGet, x.s.URL()+path, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(b), want) {
		x.t.Errorf("%s does not say %s: %.2000s %v", path, want, b, err)
	}
}

func (x *arena) decided(id string) *client.Submission {
	x.t.Helper()
	var s *client.Submission
	x.until(id+" to be decided", func() bool {
		var err error
		if s, err = x.s.Platform.Submission(x.ctx, platform.Caller{Operator: true}, id); err != nil {
			x.t.Fatal(err)
		}
		return s.Decision != nil
	})
	return s
}

// published are the tasks that were hidden and are public, as anybody reads them.
func (x *arena) published() (known map[string][2]any, from map[string]supply.Provenance) {
	x.t.Helper()
	list, err := x.s.Platform.ArenaTasks(x.ctx, platform.Caller{}, x.f.ID)
	if err != nil {
		x.t.Fatal(err)
	}
	trees := &validator.TreeCache{Dir: x.t.TempDir(), Source: x.s.Blobs}
	known, from = map[string][2]any{}, map[string]supply.Provenance{}
	for _, tk := range list {
		if !tk.Retired {
			continue
		}
		if _, err := x.s.Platform.Blob(x.ctx, platform.Caller{}, tk.Committed.Digest); err != nil {
			x.t.Errorf("a published task is not served: %v", err)
		}
		dir, err := trees.Tree(x.ctx, tk.Committed.Digest)
		if err != nil {
			x.t.Fatal(err)
		}
		on, err := task.LoadDir(dir, "t/t")
		if err != nil {
			x.t.Fatal(err)
		}
		c, ref, err := play.LoadTask(on)
		if err != nil {
			x.t.Fatal(err)
		}
		known[c.Payload.ClaimText] = [2]any{ref.Verdict, ref.Justification}
		b, err := os.ReadFile(filepath.Join(dir, supply.ProvenanceFile))
		var p supply.Provenance
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			x.t.Fatalf("provenance: %v", err)
		}
		from[c.Payload.ClaimText] = p
	}
	return known, from
}

// atHome plays the published claims of the second round on this machine, by a script that
// knows them, and reads beside it what who sits had on them.
func (x *arena) atHome(script string, sits *client.Submission) {
	x.t.Helper()
	file := filepath.Join(x.t.TempDir(), play.AgentFile)
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		x.t.Fatal(err)
	}
	k := claim.Kit()
	round := int64(1)
	r, err := roles.Try(x.ctx, kittest.Options(x.t.TempDir(), kit.List{k}), roles.Trial{File: file, Arena: x.f.ID, URL: x.s.URL(), Set: &round})
	if err != nil {
		x.t.Fatal(err)
	}
	c := r.Champion
	if r.Score == nil || *r.Score < 0.4 || c == nil || c.Submission != sits.ID || c.Score >= *r.Score || c.BoxMS == nil {
		x.t.Errorf("the round at home: %+v, champion %+v", r, c)
	}
	for _, n := range []int64{2, 99} { // the round that is played now, and one that never was
		_, err = roles.Try(x.ctx, kittest.Options(x.t.TempDir(), kit.List{k}), roles.Trial{File: file, Arena: x.f.ID, URL: x.s.URL(), Set: &n})
		var e *agon.Error
		if !errors.As(err, &e) || e.Field != "period" || !strings.Contains(e.Mend, "0, 1") && !strings.Contains(e.Mend, "1, 0") {
			x.t.Errorf("round %d: %v", n, err)
		}
	}
}

// Three rounds of an arena: each has claims that nobody has seen, made of documents
// that no round before was made of; who sits is played on them first and gets half
// of them wrong at least; and a miner that knows all published rounds by heart gets
// nothing of the next.
func TestThreeRounds(t *testing.T) {
	const tasks = 4
	x := openRounds(t, tasks)
	first := x.decided(x.enter("reader", readExample(t, "reader.py")))
	if first.Decision.Outcome != agon.TookSeat {
		t.Fatalf("the reader does not sit: %+v", first.Decision)
	}
	var last string // the script of who knows all published rounds
	for round := 1; round <= 2; round++ {
		x.clock.add(31 * time.Minute)
		x.until("the next round to be drawn", func() bool {
			a, err := x.s.Platform.Arena(x.ctx, x.f.ID)
			return err == nil && len(a.Seeds.NextTasks) == tasks
		})
		x.clock.add(30 * time.Minute)
		var known map[string][2]any
		x.until("the round before to be published", func() bool {
			a, err := x.s.Platform.Arena(x.ctx, x.f.ID)
			if err != nil || a.Seeds.Period.Period != int64(round) {
				return false
			}
			known, _ = x.published()
			return len(known) == round*tasks
		})
		out, err := exec.CommandContext(x.ctx, "python3", filepath.Join(example, "memorise.py"), x.s.URL(), x.f.ID).Output()
		if err != nil || !strings.HasPrefix(string(out), fmt.Sprintf("# %d claims by heart\n", len(known))) {
			t.Fatalf("memorise.py: %.200s %v", out, err)
		}
		last = string(out)
		s := x.decided(x.enter(fmt.Sprintf("heart-%d", round), last))
		if s.Score == nil || *s.Score > 0.05 || s.Decision.Outcome == agon.TookSeat {
			t.Errorf("round %d: who knows the %d claims before by heart has %v, %s", round, len(known), s.Score, s.Decision.Outcome)
		}
		a, err := x.s.Platform.Arena(x.ctx, x.f.ID)
		if err != nil || len(a.Seats) == 0 || a.Seats[0].Submission != first.ID {
			t.Fatalf("round %d: who sits is %+v, %v", round, a.Seats, err)
		}
		x.shows("/arenas/rounds", "The next round begins")
		x.shows("/v1/monitoring/miner-task-batches", fmt.Sprintf(`"next_batch_at":"%s"`, a.Seeds.Period.Closes.UTC().Format(time.RFC3339Nano)))
		t.Logf("round %d: the reader stands at %.2f, the memoriser at %.2f", round, a.Seats[0].Score, *s.Score)
		if a.Seats[0].Score > 0.5 {
			t.Errorf("round %d: who sits gets %.2f of what was drawn against it", round, a.Seats[0].Score)
		}
	}
	x.costsShown(3)
	x.atHome(last, first)
	_, from := x.published()
	repaired := 0
	for claim, p := range from {
		if p.Proposer == "" || p.Reference == "" || p.Auditor == "" {
			t.Errorf("%q comes from %+v", claim, p)
		}
		if p.Repaired {
			repaired++
		}
	}
	if repaired == 0 {
		t.Error("no reference was mended, where each fourth should be")
	}
}

// upBeside runs `agon up` until the test ends. What it returned comes on ended; a test that reads
// it there puts it back.
func upBeside(t *testing.T, o kit.Options) (ctx context.Context, ended chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() {
		_, err := roles.Up(ctx, o)
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return ctx, ended
}
