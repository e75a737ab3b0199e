package roles_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/judge"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// labelled is an OpenAI-compatible server that knows the labels of the cases that ship.
// says makes its verdict of a label and of how many were asked before.
func labelled(t *testing.T, says func(l judge.Labelled, n int) bool) *httptest.Server {
	t.Helper()
	cases, err := judge.ReadCases(strings.NewReader(judge.Exams()[0].Shipped))
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]judge.Labelled{}
	for _, l := range cases {
		doc, err := judge.Document(l.SupportCase)
		if err != nil {
			t.Fatal(err)
		}
		by[string(doc)] = l
	}
	var n atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
			http.Error(w, "bad", 400)
			return
		}
		l, ok := by[q.Messages[len(q.Messages)-1].Content] // else the gateway asks whether anybody is there
		text, _ := json.Marshal(map[string]any{"rationale": "by its label", "support_ok": says(l, int(n.Add(1)))})
		if !ok {
			text = []byte("pong")
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "model": q.Model, "choices": []any{map[string]any{"index": 0, "message": map[string]any{"role": "assistant", "content": string(text)}, "finish_reason": "stop"}},
			"usage": map[string]int{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
		})
	}))
	t.Cleanup(s.Close)
	return s
}

// An arena of a judge that errs decides no seat until one was measured and passed: on
// its page, in /v1 and by `agon arena check`.
func TestJudgeGate(t *testing.T) {
	data := t.TempDir()
	file := filepath.Join(t.TempDir(), "arena.toml")
	text := "id = \"real\"\nkind = \"claim\"\ntitle = \"Real\"\nnetuid = 2\nsets = [\"demo\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	o := kittest.Options(data, kinds.All())
	o.Arenas = []string{file}
	ready, ended := make(chan string, 1), make(chan error, 1)
	o.Ready = func(url string) { ready <- url }
	go func() {
		_, err := roles.Up(ctx, o)
		ended <- err
	}()
	defer func() {
		cancel()
		<-ended
	}()
	var url string
	select {
	case url = <-ready:
	case err := <-ended:
		ended <- err
		t.Fatalf("up ended: %v", err)
	}
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s: %s %v", path, resp.Status, err)
		}
		return string(b)
	}
	agon := func(v any, args ...string) int {
		t.Helper()
		s, out, errOut := iostreams.Test("")
		env, err := config.System()
		if err != nil {
			t.Fatal(err)
		}
		a := &cli.App{IO: s, Now: time.Now, Services: app.Services(kinds.All()), Extras: kinds.All().Commands(), Env: env}
		code := a.Main(t.Context(), append(args, "-o", "json"))
		if err := json.Unmarshal([]byte(out.String()), v); err != nil {
			t.Fatalf("%v: %v %s %s", args, err, out, errOut)
		}
		return code
	}
	shows := func(seats bool, sentence string, classes int) {
		t.Helper()
		var a client.Arena
		if err := json.Unmarshal([]byte(get("/v1/arenas/real")), &a); err != nil {
			t.Fatal(err)
		}
		if a.Judge == nil || a.Judge.Seats != seats || !strings.Contains(a.Judge.Sentence, sentence) {
			t.Fatalf("judge %+v, want %q", a.Judge, sentence)
		}
		if classes > 0 && (len(a.Judge.Judges) == 0 || len(a.Judge.Judges[0].Classes) != classes) {
			t.Errorf("judges %+v", a.Judge.Judges)
		}
		page := get("/arenas/real")
		for !strings.Contains(page, sentence) { // a page is made once a second
			page = get("/arenas/real")
		}
		if classes > 0 && !strings.Contains(page, "injection in a citation") {
			t.Error("the page does not show error rates by class")
		}
		var checked cli.ArenaChecked
		if code := agon(&checked, "arena", "check", file, "--data", data); code != 0 || checked.Judge == nil || checked.Judge.Seats != seats || !strings.Contains(checked.Judge.Sentence, sentence) {
			t.Errorf("arena check: exit code %d, %+v", code, checked)
		}
	}
	measure := func(model string, want int, says func(l judge.Labelled, n int) bool) {
		t.Helper()
		s := labelled(t, says)
		for k, v := range map[string]string{"AGON_LLM_BASE_URL": s.URL, "AGON_LLM_API_KEY": "zq9-test-secret", "AGON_LLM_MODEL": model, "AGON_LLM_PRICE_IN": "1000000", "AGON_LLM_PRICE_OUT": "1000000"} {
			t.Setenv(k, v)
		}
		var c judge.Calibration
		if code := agon(&c, "judge", "calibrate", "--data", data); code != want || !c.Kept {
			t.Fatalf("exit code %d, want %d: %+v", code, want, c)
		}
	}

	cases, err := judge.ReadCases(strings.NewReader(judge.Exams()[0].Shipped))
	if err != nil {
		t.Fatal(err)
	}
	negative := map[string]bool{}
	for _, l := range cases {
		if !l.SupportOK {
			negative[l.Class] = true
		}
	}
	shows(false, "its judge was never measured", 0)
	for _, prompt := range []string{"support", "pairwise", "correct", "criterion"} { // without a model: measured, labelled, and worth nothing
		var c judge.Calibration
		if code := agon(&c, "judge", "calibrate", "--prompt", prompt, "--data", data); code != cli.CodeRefused || !c.Demo || c.Kept || c.Passed || c.Judged < 300 {
			t.Errorf("%s: exit code %d, demo %v, kept %v, passed %v, judged %d", prompt, code, c.Demo, c.Kept, c.Passed, c.Judged)
		}
	}
	shows(false, "its judge was never measured", 0)
	measure("yes-sayer", cli.CodeRefused, func(judge.Labelled, int) bool { return true })
	shows(false, "no judge on record passes its gate (yes-sayer, below the gate", len(negative))
	measure("careful", 0, func(l judge.Labelled, n int) bool { return l.SupportOK != (n%20 == 0) })
	shows(true, "passed the gate: careful", len(negative))
}
