package roles_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// oneTask writes an arena over one task of a kind, and returns its file and the task's directory.
func oneTask(t *testing.T, kind, set, key string) (arena, dir string) {
	t.Helper()
	list, err := kit.Options{Kits: kinds.All()}.ShippedSet(kind, set)
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	for _, x := range list {
		if x.Key == set+"/"+key {
			dir = filepath.Join(top, "set", key)
			if err := task.Materialise(x, dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if dir == "" {
		t.Fatalf("%s has no task %s/%s", kind, set, key)
	}
	arena = filepath.Join(top, "arena.toml")
	text := fmt.Sprintf("id = \"test-one\"\nkind = %q\ntitle = \"test\"\nnetuid = 3\nincentive = \"winner_takes_all\"\nsets = [%q]\nsamples = true\n", kind, filepath.Dir(dir))
	if err := os.WriteFile(arena, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return arena, dir
}

// A stored play is judged anew by the run's own verifier and by another's; both
// scores are kept, and that of the server stands.
func TestRegrade(t *testing.T) {
	arena, mended := oneTask(t, "harbor", "basic", "hello")
	ctx, cancel := context.WithCancel(t.Context())
	o := kittest.Options(t.TempDir(), kinds.All())
	o.Arenas, o.Listen = []string{arena}, "127.0.0.1:0"
	ready, decided := make(chan string, 1), make(chan struct{})
	var once sync.Once
	o.Ready = func(url string) { ready <- url }
	o.Decided = func(*client.Overview) { once.Do(func() { close(decided) }) }
	ended := make(chan error, 1)
	go func() {
		_, err := roles.Up(ctx, o)
		ended <- err
	}()
	defer func() {
		cancel()
		<-ended
	}()
	var url string
	for range 2 {
		select {
		case url = <-ready:
		case <-decided:
		case err := <-ended:
			ended <- err
			t.Fatalf("up ended: %v", err)
		}
	}
	data := t.TempDir()
	run := func(want int, args ...string) []byte {
		t.Helper()
		s, out, errOut := iostreams.Test("")
		a := &cli.App{
			IO: s, Now: time.Now, Services: app.Services(kinds.All()), Extras: kinds.All().Commands(),
			Env: config.Env{Getenv: func(string) string { return "" }, Dir: data, Home: data, UserCacheDir: data},
		}
		if code := a.Main(t.Context(), append(args, "--url", url, "--data", data, "-o", "json")); code != want {
			t.Fatalf("%v: exit code %d, want %d: %s", args, code, want, errOut)
		}
		return []byte(out.String())
	}
	solved := func() (id string) {
		var list []agon.Run
		if err := json.Unmarshal(run(0, "run", "list"), &list); err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if len(r.Scores) == 1 && r.Scores[0].Value == 1 {
				id = r.Run
			}
		}
		return id
	}
	id := solved()
	if id == "" {
		t.Fatal("nobody solved the task")
	}
	var r cli.Regrade
	read := func(b []byte) *cli.RegradeRow {
		t.Helper()
		if r = (cli.Regrade{}); json.Unmarshal(b, &r) != nil || len(r.Tasks) != 1 || r.Tasks[0].Stored == nil || r.Tasks[0].Regraded == nil {
			t.Fatalf("%s", b)
		}
		return &r.Tasks[0]
	}
	if x := read(run(0, "run", "regrade", id)); !r.Same || x.Stored.Value != 1 || x.Regraded.Value != 1 {
		t.Errorf("judged by its own verifier: %+v", r)
	}
	if err := os.WriteFile(filepath.Join(mended, "tests", "test.sh"), []byte("echo 0.25 > /logs/verifier/reward.txt\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if x := read(run(cli.CodePartly, "run", "regrade", id, "--task", mended)); r.Same || x.Stored.Value != 1 || x.Regraded.Value != 0.25 {
		t.Errorf("judged by another verifier: %+v", r)
	}
	b, err := os.ReadFile(r.Kept)
	if err != nil || bytes.Count(b, []byte("\n")) != 2 {
		t.Errorf("kept: %v\n%s", err, b)
	}
	if solved() != id {
		t.Error("the score at the server changed")
	}
}
