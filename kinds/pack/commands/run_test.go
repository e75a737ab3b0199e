package commands

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/fetch"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// The miner's loop: a model writes, the pack is published where a web server
// shows it and committed once; the same policy changes nothing, what would be
// refused or excluded is not committed, and a model that fails is a provider's fault.
func TestPackRun(t *testing.T) {
	a, out, errOut := newApp(t)
	dir := t.TempDir()
	if code := a.Main(t.Context(), []string{"key", "new"}); code != 0 {
		t.Fatal(code, errOut.String())
	}
	key, err := a.Key()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "ledger.db")
	l, err := local.Open(t.Context(), file, local.Config{Stepped: true})
	if err != nil {
		t.Fatal(err)
	}
	owner, err := auth.KeyFromURI("//owner")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.EnsureSubnet(t.Context(), 11, local.Subnet{OwnerHotkey: owner.SS58(), OwnerColdkey: owner.SS58()}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Register(t.Context(), 11, key.SS58(), owner.SS58()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	state := func() (int, string) {
		t.Helper()
		a.IO, out, errOut = iostreams.Test("")
		return a.Main(t.Context(), []string{"pack", "status", "--netuid", "11", "-o", "json"}), out.String()
	}
	raw := func(text string) {
		t.Helper()
		l, err := local.Open(t.Context(), file, local.Config{})
		if err == nil {
			_, err = l.Commit(t.Context(), 11, key.SS58(), ledger.Raw([]byte(text)))
		}
		if err = errors.Join(err, l.Close()); err != nil {
			t.Fatal(err)
		}
	}
	reply, status := "", 200
	var asked string
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		asked = r.Header.Get("Authorization") + " " + r.URL.Path + " " + string(b)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": map[string]any{"content": reply}}}})
	}))
	defer model.Close()
	web := filepath.Join(dir, "www")
	if err := os.Mkdir(web, 0o755); err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(http.FileServer(http.Dir(web)))
	defer site.Close()
	env := map[string]string{"AGON_LEDGER": file, "CLAWBENCH_LLM_BASE_URL": model.URL + "/v4/", "CLAWBENCH_LLM_API_KEY": "sk-test-77", "CLAWBENCH_DEFAULT_MODEL": "zhipu/glm-5"}
	a.Env.Getenv = func(k string) string { return env[k] }
	run := func(args ...string) (int, packRound) {
		t.Helper()
		a.IO, out, errOut = iostreams.Test("")
		code := a.Main(t.Context(), append([]string{"pack", "run", "--once", "--netuid", "11", "-o", "json"}, args...))
		var r packRound
		if code == 0 {
			if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
		}
		return code, r
	}
	place := []string{"--dir", web, "--base", site.URL}
	if code, out := state(); code != 1 || !strings.Contains(out, `"raw":""`) {
		t.Errorf("status before any commitment: exit %d, %s", code, out)
	}
	raw("https://nothing.example")
	if code, out := state(); code != 1 || !strings.Contains(out, `"valid":false`) || !strings.Contains(out, "nothing.example") {
		t.Errorf("status of another text: exit %d, %s", code, out)
	}

	reply = "```markdown\nRead the list first. Ask before anything is sent.\n```"
	code, first := run(place...)
	want := packfile.Build(packfile.BuildOptions{Policy: "Read the list first. Ask before anything is sent.\n"})
	if code != 0 || !first.Changed || first.Hash != want.Hash || len(first.URL) > 63 {
		t.Fatalf("exit %d, %+v: %s", code, first, errOut.String())
	}
	if !strings.HasPrefix(asked, "Bearer sk-test-77 /v4/chat/completions ") || !strings.Contains(asked, `"model":"glm-5"`) {
		t.Errorf("the model was asked: %.300s", asked)
	}
	// Validators read there what was committed.
	b, err := fetch.New(fetch.Config{AllowPrivate: true}).Get(t.Context(), first.URL)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := packfile.Read(b); err != nil || p.Hash != first.Hash {
		t.Errorf("the address holds another pack: %v", err)
	}
	if code, again := run(place...); code != 0 || again.Changed || again.Hash != first.Hash {
		t.Errorf("the same policy: exit %d, %+v", code, again)
	}
	for name, c := range map[string]struct {
		reply  string
		status int
		args   []string
		code   int
		say    string
	}{
		"a model that fails": {"x", 402, place, 9, "status 402"},
		"nothing":            {" ", 200, place, 9, "empty"},
		"too long":           {strings.Repeat("y ", 14_001), 200, place, 9, "at most 28000"},
		"gaming":             {"Open inbox.json and answer.", 200, place, 7, "fixture"},
		"a long address":     {"Another one.", 200, []string{"--dir", web, "--base", "https://" + strings.Repeat("x", 60) + ".example"}, 7, "Use a shorter URL"},
		"no place":           {"Another one.", 200, nil, 2, "no place"},
		"half a place":       {"Another one.", 200, []string{"--dir", web}, 2, "go together"},
		"no such mode":       {"", 200, []string{"--mode", "x"}, 2, "not known"},
	} {
		reply, status = c.reply, c.status
		if code, _ := run(c.args...); code != c.code || !strings.Contains(errOut.String(), c.say) {
			t.Errorf("%s: exit %d, %s", name, code, errOut.String())
		}
	}
	reply, status = "Read the calendar first. Offer drafts.", 200
	if code, r := run(place...); code != 0 || !r.Changed || r.Hash == first.Hash {
		t.Errorf("another policy: exit %d, %+v", code, r)
	}
	// Submitting an address: what validators would refuse is not committed.
	for name, content := range map[string]string{
		"none.json": "", "big.json": "{" + strings.Repeat(" ", 64<<10) + "}", "text.json": "no pack", "schema.json": `{"schema_version":1,"files":{}}`,
	} {
		if content != "" {
			if err := os.WriteFile(filepath.Join(web, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a.IO, out, errOut = iostreams.Test("")
		if code := a.Main(t.Context(), []string{"pack", "submit", site.URL + "/" + name, "--netuid", "11", "--allow-private"}); code == 0 {
			t.Errorf("%s: it was committed: %s", name, out.String())
		}
	}
	a.IO, out, errOut = iostreams.Test("")
	if code := a.Main(t.Context(), []string{"pack", "submit", first.URL, "--netuid", "11", "--allow-private", "-o", "json"}); code != 0 || !strings.Contains(out.String(), first.Hash) {
		t.Errorf("submit: exit %d, %s", code, errOut.String())
	}
	run(place...) // another policy again
	// The demo commits what lies at an address.
	if code, r := run("--mode", "demo", "--pack", first.URL, "--allow-private"); code != 0 || !r.Changed || r.Hash != first.Hash || r.URL != first.URL {
		t.Errorf("demo: exit %d, %+v: %s", code, r, errOut.String())
	}
	if code, r := run("--mode", "demo", "--pack", first.URL, "--allow-private"); code != 0 || r.Changed {
		t.Errorf("demo again: exit %d, %+v", code, r)
	}
	if code, _ := run("--mode", "demo", "--pack", first.URL); code != 7 {
		t.Errorf("a private address: exit %d", code)
	}
	// Without an address the sample of the server that --url names is committed: the flag means here what it means everywhere.
	if err := os.Mkdir(filepath.Join(web, "packs"), 0o755); err != nil {
		t.Fatal(err)
	}
	sample := packfile.Build(packfile.BuildOptions{Policy: "Read the sample first."})
	if err := os.WriteFile(filepath.Join(web, "packs", "optimised.json"), sample.Canonical, 0o600); err != nil {
		t.Fatal(err)
	}
	a = &cli.App{Now: a.Now, Env: a.Env, Extras: a.Extras} // one App reads its settings once
	if code, r := run("--mode", "demo", "--url", site.URL); code != 0 || r.Hash != sample.Hash || r.URL != site.URL+"/packs/optimised.json" {
		t.Errorf("the server's sample: exit %d, %+v: %s", code, r, errOut.String())
	}
	run("--mode", "demo", "--pack", first.URL, "--allow-private")
	a.IO, out, _ = iostreams.Test("")
	if code := a.Main(t.Context(), []string{"pack", "status", "--netuid", "11", "-o", "json"}); code != 0 || !strings.Contains(out.String(), first.Hash) {
		t.Errorf("status: exit %d, %s", code, out.String())
	}
}

// Uploading to a bucket: one PUT under eight digits of the hash, at an address
// that a commitment can hold.
func TestPackUpload(t *testing.T) {
	var put []string
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			put = append(put, r.URL.Path+" "+r.Header.Get("Content-Type"))
		}
		w.Header().Set("ETag", `"x"`)
	}))
	defer store.Close()
	s, out, errOut := iostreams.Test("")
	env := map[string]string{"S3_ENDPOINT_URL": store.URL, "S3_BUCKET": "packs", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}
	a := &cli.App{IO: s, Extras: []func(*cli.App) []cli.Extra{func(a *cli.App) []cli.Extra { return Of(a, Work{}) }}}
	a.Env.Getenv = func(k string) string { return env[k] }
	p := packfile.Build(packfile.BuildOptions{Policy: "Read first."})
	file := filepath.Join(t.TempDir(), "pack.json")
	if err := os.WriteFile(file, p.Canonical, 0o600); err != nil {
		t.Fatal(err)
	}
	code := a.Main(t.Context(), []string{"pack", "upload", file, "-o", "id"})
	at := store.URL + "/packs/" + p.Hash[:8] + ".json"
	if code != 0 || strings.TrimSpace(out.String()) != at || len(put) != 1 || put[0] != "/packs/"+p.Hash[:8]+".json application/json" {
		t.Errorf("exit %d, %q, %v: %s", code, out.String(), put, errOut.String())
	}
	if _, err := (packfile.Commitment{Hash: p.Hash, URL: at}).Write(); err != nil {
		t.Error(err)
	}
}

// newApp is a command line of this kind alone, with a home of its own.
func newApp(t *testing.T) (*cli.App, *iostreams.Buffer, *iostreams.Buffer) {
	t.Helper()
	s, out, errOut := iostreams.Test("")
	home := t.TempDir()
	return &cli.App{
		IO: s, Now: time.Now, Env: config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home},
		Extras: []func(*cli.App) []cli.Extra{func(a *cli.App) []cli.Extra { return Of(a, Work{}) }},
	}, out, errOut
}
