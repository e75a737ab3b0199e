package roles

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/claim/play"
	"github.com/agon-arena/agon/kinds/kit"
)

var operatorCaller = platform.Caller{Operator: true}

// testValidator is `agon validator` in a process of its own.
func testValidator(url, wallets, data string) error {
	val, err := kit.LoadParty(wallets, "validator")
	if err != nil {
		return err
	}
	c, err := client.New(url, val.Hotkey)
	if err != nil {
		return err
	}
	o := testOptions(data)
	return Validator(context.Background(), o, c, val.Hotkey, nil)
}

// claimArena writes an arena over n claims of the demo.
func claimArena(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	list, err := kit.Options{Kits: kinds.All()}.ShippedSet(play.Name, "demo")
	if err != nil || len(list) < n {
		t.Fatalf("%d claims, %v", len(list), err)
	}
	for _, tk := range list[:n] {
		if err := task.Materialise(tk, filepath.Join(dir, "claims", filepath.Base(tk.Key))); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "arena.toml")
	text := fmt.Sprintf("id = \"test-claim\"\nkind = \"claim\"\ntitle = \"test\"\nnetuid = 3\nincentive = \"roster\"\nsets = [%q]\n[judge]\ndemo = true\n", filepath.Join(dir, "claims"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// slowScript answers v after a free tool call and a nap, so that a run has a middle.
func slowScript(v string) string {
	return `import asyncio
from caster_miner_sdk.api import test_tool
from caster_miner_sdk.decorators import entrypoint

@entrypoint("evaluate_criterion")
async def evaluate_criterion(request):
    await test_tool("x")
    print("thinking", flush=True)
    await asyncio.sleep(0.2)
    values = [o["value"] for o in request["verdict_options"]]
    return {"verdict": ` + v + `, "justification": "a guess"}
`
}

// Scripts play twelve claims each; the validator is killed in the middle of a
// run and started again, AGON_FAULT_ROUNDS times (at most 90), each time in another run.
// Every pair is graded exactly once, and a file can be tried against the one
// that sits.
func TestClaimValidatorKilled(t *testing.T) {
	const claims = 12
	rounds := 1
	if n, err := strconv.Atoi(os.Getenv("AGON_FAULT_ROUNDS")); err == nil && n > 0 {
		rounds = min(n, 90) // all runs stand on one page of 200
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(4+rounds/2)*time.Minute)
	defer cancel()
	r := rand.New(rand.NewPCG(1, uint64(rounds)))
	o := testOptions(t.TempDir())
	o.Lease = 2 * time.Second
	s, err := openServer(ctx, o, o.Kinds(""))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	val, err := kit.LoadParty(s.Data.Path("wallets"), "validator")
	if err != nil {
		t.Fatal(err)
	}
	f, err := kit.LoadArenaFile(claimArena(t, claims), kinds.All())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.openArena(ctx, f, val); err != nil {
		t.Fatal(err)
	}
	s.gate.open.Store(true)
	scripts := []string{"values[0]", "values[-1]", "sorted(values)[len(values) // 2]"}
	for len(scripts) < 2*rounds+1 { // two for each kill, since some end unseen, and one that plays in peace
		scripts = append(scripts, "("+scripts[len(scripts)-3]+" or values[0])")
	}
	for i, v := range scripts {
		miner, err := kit.LoadParty(s.Data.Path("wallets"), "miner-"+fmt.Sprint(i))
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
		if _, err := c.Submit(ctx, f.ID, client.SubmitRequest{Name: fmt.Sprint("script ", i), Licence: f.Licence, Files: []client.File{{Path: play.AgentFile, Content: []byte(slowScript(v))}}}); err != nil {
			t.Fatal(err)
		}
	}

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if err := os.Chmod(data, 0o755); err != nil { // boxes enter it
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "AGON_TEST_VALIDATOR="+s.URL(), "AGON_TEST_WALLETS="+s.Data.Path("wallets"), "AGON_TEST_DATA="+data)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if cmd.ProcessState == nil {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
		return cmd
	}
	kill := func(cmd *exec.Cmd) {
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the killed validator ended well")
		}
	}
	cmd := start()
	hit := map[string]bool{} // runs that were killed
	for round := range rounds {
		middle := 3 + r.IntN(10) // claims that have begun
		waitFor(t, ctx, s, "a run in its middle", func(runs []client.Run) bool {
			over := len(runs) > 0
			for _, x := range runs {
				over = over && x.State.Final()
				if x.State != agon.RunPlaying || hit[x.RunSpec.Run] {
					continue
				}
				events, err := s.Platform.Events(ctx, operatorCaller, x.RunSpec.Run, 0, 0, 1000)
				if err != nil {
					t.Fatal(err)
				}
				begun := map[string]bool{}
				for _, e := range events {
					begun[e.Task] = true
				}
				if len(begun) >= middle {
					return true
				}
			}
			if over {
				t.Fatalf("all runs ended before the validator could be killed %d times", round+1)
			}
			return false
		})
		kill(cmd)
		list, err := s.Platform.Runs(ctx, operatorCaller, f.ID, "", "", "", 200)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list.Items {
			if x.State.Held() {
				hit[x.RunSpec.Run] = true
			}
		}
		cmd = start()
	}
	runs := waitFor(t, ctx, s, "all runs ended", func(runs []client.Run) bool {
		for _, r := range runs {
			if !r.State.Final() {
				return false
			}
		}
		return true
	})
	kill(cmd)

	lost := 0
	graded := map[string]map[string]int{}
	for _, r := range runs {
		full, err := s.Platform.Run(ctx, operatorCaller, r.RunSpec.Run)
		if err != nil {
			t.Fatal(err)
		}
		counted := 0
		for _, a := range full.List {
			if a.Counted {
				counted++
			} else {
				lost++
			}
		}
		if counted != 1 || r.State != agon.RunScored || r.Fault != agon.FaultNone {
			t.Errorf("run %s is %s (%s) with %d counted attempts", r.RunSpec.Run, r.State, r.Fault, counted)
		}
		if graded[r.Submission] == nil {
			graded[r.Submission] = map[string]int{}
		}
		for _, x := range full.Scores {
			if x.Detail == "" || strings.Contains(x.Detail, "error") {
				t.Errorf("%s on %s: %s", r.Submission, x.Task, x.Detail)
			}
			graded[r.Submission][x.Task]++
		}
	}
	if lost == 0 {
		t.Error("nothing was lost: the validator was not killed in the middle")
	}
	if len(graded) != len(scripts) {
		t.Errorf("%d scripts were graded", len(graded))
	}
	for id, tasks := range graded {
		if len(tasks) != claims {
			t.Errorf("%s was graded on %d claims", id, len(tasks))
		}
		for key, n := range tasks {
			if n != 1 {
				t.Errorf("%s was graded %d times on %s", id, n, key)
			}
		}
	}
	b, err := s.Platform.Board(ctx, f.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Decisions) < 3 || len(b.Seats) == 0 {
		t.Fatalf("board %+v", b)
	}

	file := filepath.Join(t.TempDir(), "agent.py")
	if err := os.WriteFile(file, []byte(slowScript("values[0]")), 0o600); err != nil {
		t.Fatal(err)
	}
	res, err := Try(ctx, testOptions(t.TempDir()), Trial{File: file, Arena: f.ID, URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	c := res.Champion
	if len(res.Runs) != claims || res.Score == nil || c == nil || c.Submission != *b.Champion || c.BoxMS == nil || *c.BoxMS == 0 || c.Bar == nil || c.Takes {
		t.Errorf("try %+v, champion %+v", res, c)
	}
	for _, d := range b.Submissions {
		if d.Name == "script 0" && (d.Score == nil || *d.Score != *res.Score) {
			t.Errorf("tried %v, the arena says %v", *res.Score, d.Score)
		}
	}
}

// waitFor polls the runs of the server until they are as wanted.
func waitFor(t *testing.T, ctx context.Context, s *server, what string, ok func([]client.Run) bool) []client.Run {
	t.Helper()
	for {
		page, err := s.Platform.Runs(ctx, operatorCaller, "", "", "", "", 200)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if ok(page.Items) {
			return page.Items
		}
		wctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		_ = s.Platform.Wait(wctx, "") // news, or a moment later
		cancel()
	}
}
