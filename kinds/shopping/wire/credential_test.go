package wire

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/platform"
)

// shouts is a log that tests read.
type shouts struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shouts) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shouts) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// backend is a server that starts anew over the world's folder.
func (w *world) backend() *Backend {
	w.t.Helper()
	b, err := newBackend(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

const canary = "sk-canary-of-the-miner"

// keyed is a lending world with a provider that answers a credential with the status
// in its name: sk-402-x is without credit, and sk-0-x gets no answer.
func keyed(t *testing.T) (*world, *shouts) {
	t.Helper()
	w, _ := lending(t)
	up := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		status := 200
		if _, err := fmt.Sscanf(token, "sk-%d-", &status); err == nil && status == 0 {
			panic(http.ErrAbortHandler)
		}
		var in struct {
			Model string
			Most  int `json:"max_tokens"`
		}
		if r.URL.Path != "/v1/chat/completions" || json.NewDecoder(r.Body).Decode(&in) != nil || in.Model == "" || in.Most != 1 {
			t.Errorf("the trial asks %s %+v", r.URL.Path, in)
		}
		if status == 302 {
			rw.Header().Set("Location", "http://"+r.Host+"/elsewhere")
		}
		rw.WriteHeader(status)
	}))
	t.Cleanup(up.Close)
	log := &shouts{}
	w.cfg.Providers = map[string]string{"chutes": up.URL, "openrouter": up.URL + "/"}
	w.cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	var err error
	if w.h, err = New(w.cfg); err != nil {
		t.Fatal(err)
	}
	return w, log
}

// A credential is tried once before it is kept: what the provider refuses is not stored,
// what it could not answer is. It stands nowhere in the clear, and no route gives it back.
func TestCredentials(t *testing.T) {
	w, log := keyed(t)
	const at = "/v1/miner/inference-auth"
	w.must('a', "POST", at+"/chutes", `{"credential":"sk-401-canary"}`, 400, "INVALID_CREDENTIAL")
	w.must('a', "POST", at+"/chutes", `{"credential":"sk-403-canary"}`, 400, "INVALID_CREDENTIAL")
	w.must('a', "POST", at+"/chutes", `{"credential":"sk-402-canary"}`, 402, "NO_CREDIT")
	if out := w.must('a', "GET", at, "", 200, ""); len(out["providers"].([]any)) != 0 || out["default_provider"] != nil {
		t.Errorf("after three refusals: %v", out)
	}
	for _, answer := range []string{"429", "500", "503", "0", "302"} {
		w.must('a', "POST", at+"/openrouter", `{"credential":"sk-`+answer+`-canary"}`, 200, "")
	}
	w.must('b', "POST", "/v1/miner/chutes-auth", `{"refresh_token":"`+canary+`"}`, 200, "")
	if out := w.must('b', "GET", "/v1/miner/chutes-auth/status", "", 200, ""); out["connected"] != true || out["updated_at"] == nil {
		t.Errorf("%v", out)
	}
	for _, bad := range []string{`{}`, `{"credential":""}`, `{"credential":"a\nb"}`, `{"credential":5}`, `{"credential":"` + strings.Repeat("x", 5000) + `"}`} {
		w.must('a', "POST", at+"/chutes", bad, 422, "")
	}
	w.must('a', "POST", at+"/nobody", `{"credential":"x"}`, 422, "")
	w.must('x', "POST", at+"/chutes", `{"credential":"x"}`, 403, "") // of nobody registered
	for range 12 {                                                   // each of which asks the provider
		w.json('a', "POST", at+"/chutes", `{"credential":"sk-401-canary"}`)
	}
	w.must('a', "POST", at+"/chutes", `{"credential":"x"}`, 429, "RATE_LIMITED")
	w.skip(time.Minute)
	w.must('a', "POST", at+"/chutes", `{"credential":"`+canary+`"}`, 200, "")

	// The first is the default, until another is chosen or it is taken away.
	if out := w.must('a', "GET", at, "", 200, ""); len(out["providers"].([]any)) != 2 || out["default_provider"] != "openrouter" {
		t.Errorf("%v", out)
	}
	w.must('a', "PATCH", at+"/default", `{"provider":"chutes"}`, 200, "")
	if out := w.must('a', "DELETE", at+"/chutes", "", 200, ""); out["default_provider"] != "openrouter" {
		t.Errorf("%v", out)
	}
	w.must('a', "PATCH", at+"/default", `{"provider":"chutes"}`, 409, "NOT_CONNECTED")
	w.must('a', "POST", at+"/chutes", `{"credential":"`+canary+`"}`, 200, "")
	if _, _, raw := w.json('a', "GET", at+"/chutes", ""); bytes.Contains(raw, []byte(canary)) {
		t.Errorf("a credential is read out: %s", raw)
	}
	err := filepath.WalkDir(w.cfg.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("canary")) {
			t.Errorf("%s holds a credential", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "could not be tried") {
		t.Errorf("the log: %s", log.String())
	}
}

// A validator gets a miner's credential where the miner's hotkey has signed that it may,
// for as long as it has signed, and only that credential; all others get the arena's token.
func TestConsent(t *testing.T) {
	w, log := keyed(t)
	const at = "/v1/miner/inference-auth/chutes"
	until := w.clock().Add(time.Hour).UTC().Truncate(time.Second)
	v, sum := w.keys['v'].SS58(), ""
	say := func(k byte, signed []string, told []string, end time.Time) string {
		t.Helper()
		sig, err := w.keys[k].Sign([]byte(ConsentText("demo-shopping", w.keys['a'].SS58(), "chutes", sum, signed, until)))
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(map[string]any{"validators": told, "until": end, "signature": "0x" + hex.EncodeToString(sig)})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	w.must('a', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 409, "NOT_CONNECTED")
	w.must('a', "POST", at, `{"credential":"`+canary+`"}`, 200, "")
	w.must('b', "POST", at, `{"credential":"another"}`, 200, "")
	sum = text(t, w.must('a', "GET", at, "", 200, ""), "sha256")
	for name, body := range map[string]string{
		"another's signature": say('b', []string{v}, []string{v}, until), "other validators": say('a', []string{v}, []string{"*"}, until),
		"another end": say('a', []string{v}, []string{v}, until.Add(time.Hour)),
	} {
		if status, out, _ := w.json('a', "PUT", at+"/consent", body); status != 403 || out["error_code"] != "INVALID_CONSENT" || !strings.Contains(text(t, out, "text"), sum) {
			t.Errorf("%s: %d %v", name, status, out)
		}
	}
	for name, body := range map[string]string{
		"nobody": say('a', nil, []string{}, until), "no hotkey": say('a', []string{"x"}, []string{"x"}, until), "an end that was": say('a', []string{v}, []string{v}, until.Add(-24*time.Hour)),
		"for ever": say('a', []string{v}, []string{v}, until.AddDate(9, 0, 0)), "all and one": say('a', []string{"*", v}, []string{"*", v}, until),
	} {
		if status, _, raw := w.json('a', "PUT", at+"/consent", body); status != 422 {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
	w.must('b', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 403, "INVALID_CONSENT") // it is about a's

	claim := func(k byte) (token string, run map[string]any) {
		t.Helper()
		run, _ = w.play(k, 0)
		if m, _ := run["inference_token"].(map[string]any); m["access_token"] != run["chutes_access_token"] || m["expires_at"] == nil {
			t.Errorf("%v", run)
		}
		w.must(k, "POST", "/v1/validator/evaluation-runs/"+text(t, run, "eval_run_id")+"/complete", `{"terminal_status":"FAILED","failure_reason":"x"}`, 200, "")
		return text(t, run, "chutes_access_token"), run
	}
	enter := func() {
		t.Helper()
		w.skip(13 * time.Hour)
		until = w.clock().Add(time.Hour).UTC().Truncate(time.Second)
		if status, out := w.submit('a', "a", goodAgent+fmt.Sprintf("# %d\n", w.now.Unix())); status != 200 {
			t.Fatal(status, out)
		}
	}
	enter()
	if token, _ := claim('v'); token == canary {
		t.Error("a credential without a consent")
	}
	w.must('a', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 200, "")
	if token, _ := claim('w'); token == canary {
		t.Error("a credential for a validator that the miner did not name")
	}
	enter()
	w.must('a', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 200, "")
	token, run := claim('v')
	if token != canary || run["inference_token"].(map[string]any)["base_url"] != w.cfg.Providers["chutes"]+"/v1" {
		t.Errorf("%v", run)
	}
	if code, _ := w.ask(canary, question); code != http.StatusUnauthorized {
		t.Errorf("a miner's credential opens the gateway: %d", code)
	}
	// The run says past whom its calls went, and the log whose credential it was, not what.
	found := false
	page, err := w.api.Runs(bg, platform.Caller{Operator: true}, "demo-shopping", "", "", "", 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Items {
		events, err := w.api.Events(bg, platform.Caller{Operator: true}, r.Run.Run, 0, 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			found = found || e.Type == agon.EventNote && bytes.Contains(e.Data, []byte("own credential of chutes"))
		}
	}
	if !found || strings.Contains(log.String(), "canary") || !strings.Contains(log.String(), "handed on") {
		t.Errorf("noted %v, log %s", found, log.String())
	}
	// It ends: by its time, by another credential, by the miner's word.
	w.must('a', "PUT", at+"/consent", say('a', []string{"*"}, []string{"*"}, until), 200, "")
	if g, err := w.backend().granted(w.keys['a'].SS58(), w.keys['w'].SS58()); err != nil || g == nil {
		t.Errorf("all validators: %v %v", g, err)
	}
	w.must('a', "POST", at, `{"credential":"another-of-the-same"}`, 200, "")
	if g, err := w.backend().granted(w.keys['a'].SS58(), v); err != nil || g != nil {
		t.Errorf("the consent outlives its credential: %v %v", g, err)
	}
	w.must('a', "POST", at, `{"credential":"`+canary+`"}`, 200, "")
	w.must('a', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 200, "")
	w.must('a', "DELETE", at+"/consent", "", 200, "")
	if g, err := w.backend().granted(w.keys['a'].SS58(), v); err != nil || g != nil {
		t.Errorf("the consent outlives the miner's word: %v %v", g, err)
	}
	w.must('a', "PUT", at+"/consent", say('a', []string{v}, []string{v}, until), 200, "")
	w.skip(2 * time.Hour)
	if g, err := w.backend().granted(w.keys['a'].SS58(), v); err != nil || g != nil {
		t.Errorf("the consent outlives its time: %v %v", g, err)
	}
}

// A provider shows the owner of an account what was asked there: a run on hidden problems
// is paid by the arena's token, even if the miner has signed a consent.
func TestConsentIsNotForHiddenProblems(t *testing.T) {
	w, _ := keyed(t)
	const at = "/v1/miner/inference-auth/chutes"
	w.must('a', "POST", at, `{"credential":"`+canary+`"}`, 200, "")
	sum, until := text(t, w.must('a', "GET", at, "", 200, ""), "sha256"), w.clock().Add(time.Hour).UTC().Truncate(time.Second)
	sig, err := w.keys['a'].Sign([]byte(ConsentText("demo-shopping", w.keys['a'].SS58(), "chutes", sum, []string{"*"}, until)))
	if err != nil {
		t.Fatal(err)
	}
	w.must('a', "PUT", at+"/consent", fmt.Sprintf(`{"validators":["*"],"until":%q,"signature":"0x%x"}`, until.Format(time.RFC3339), sig), 200, "")
	if status, out := w.submit('a', "a", goodAgent); status != 200 {
		t.Fatal(status, out)
	}
	public, problems := w.play('v', 2)
	if public["chutes_access_token"] != canary || len(problems) != 2 {
		t.Fatalf("the public problems: %v", public)
	}
	w.must('v', "POST", "/v1/validator/evaluation-runs/"+text(t, public, "eval_run_id")+"/complete", `{"terminal_status":"SUCCESS","validator_score":1}`, 200, "")
	hidden, problems := w.play('v', 4)
	if len(problems) != 4 {
		t.Fatalf("%d problems of the race", len(problems))
	}
	if b, err := json.Marshal(hidden); err != nil || bytes.Contains(b, []byte(canary)) || hidden["chutes_access_token"] == nil {
		t.Errorf("a run on hidden problems: %s %v", b, err)
	}
}
