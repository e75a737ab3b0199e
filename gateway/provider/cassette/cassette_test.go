package cassette

import (
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/provider/scripted"
)

func ask(t *testing.T, u provider.Upstream, body string, stream bool) (int, string, string, error) {
	t.Helper()
	r, err := u.Do(t.Context(), provider.Request{Path: provider.PathChat, Model: "scripted", Body: []byte(body), Stream: stream})
	if err != nil {
		return 0, "", "", err
	}
	b, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	return r.Status, r.ContentType, string(b), err
}

// A real server is recorded over HTTP, JSON, SSE and refusals alike; without
// it the same bytes come back.
func TestRecordAndPlay(t *testing.T) {
	s, err := scripted.Parse([]byte(`{"version":1,"rule":[{"last":"bad","status":422},{"last":"down","status":503},{"content":"hello <you> \u2028"}]}`), "json")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(scripted.Handler(s))
	live, err := openai.New(openai.Config{BaseURL: srv.URL + "/v1", Models: []string{"scripted"}, Key: "sk-planted-in-a-test-0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tape.jsonl")
	rec, err := Record(path, live)
	if err != nil {
		t.Fatal(err)
	}
	msg := func(text, more string) string {
		return `{"model":"scripted",` + more + `"messages":[{"role":"user","content":"` + text + `"}]}`
	}
	type reply struct {
		body, ctype, out string
		status           int
		stream           bool
	}
	var all []reply
	for _, c := range []struct {
		text, more string
		stream     bool
	}{{"x", "", false}, {"x", `"stream":true,`, true}, {"bad", "", false}} {
		body := msg(c.text, c.more)
		st, ct, out, err := ask(t, rec, body, c.stream)
		if err != nil || out == "" {
			t.Fatalf("%s: %v", body, err)
		}
		all = append(all, reply{body, ct, out, st, c.stream})
	}
	if _, _, _, err := ask(t, rec, msg("down", ""), false); err == nil {
		t.Error("a failure was answered")
	}
	srv.Close()
	for range 2 {
		for _, r := range all { // while recording, what is on the tape is not asked again
			if st, ct, out, err := ask(t, rec, r.body, r.stream); st != r.status || ct != r.ctype || out != r.out || err != nil {
				t.Errorf("%s: %d %s %q %v", r.body, st, ct, out, err)
			}
		}
		_ = rec.Close()
		if rec, err = Play(path, []string{"scripted"}); err != nil {
			t.Fatal(err)
		}
	}
	var f *provider.Failure
	if _, _, _, err := ask(t, rec, msg("y", ""), false); !errors.As(err, &f) || f.Class != provider.ClassBadReply {
		t.Errorf("an unknown request: %v", err)
	}
	if _, _, _, err := ask(t, rec, msg("down", ""), false); err == nil {
		t.Error("a failure was recorded")
	}
}

// A tape survives the times that a test run prints, and nothing else.
func TestKeyLeavesOutDurations(t *testing.T) {
	k := func(s string) string { return keyOf(provider.PathChat, []byte(s)) }
	if k("Ran 3 tests in 0.002s\\nOK") != k("Ran 3 tests in 1.345s\\nOK") || k("took 1.5 ms") != k("took 22.25 ms") {
		t.Error("durations count")
	}
	if k("Ran 3 tests in 0.002s") == k("Ran 4 tests in 0.002s") || k("v1.2.3") == k("v1.2.4") || k("0.5") == k("0.6") {
		t.Error("more than durations is left out")
	}
}

func TestParseRefuses(t *testing.T) {
	key := strings.Repeat("a", 64)
	good := `{"key":"` + key + `","path":"/chat/completions","status":200,"content_type":"application/json","text":"{}"}`
	for _, c := range []struct{ name, in, want string }{
		{"no json", "x", "line 1"},
		{"unknown field", `{"kex":1}`, "line 1"},
		{"key", strings.Replace(good, key, "ab", 1), "key"},
		{"path", strings.Replace(good, "/chat", "/chit", 1), "path"},
		{"status", strings.Replace(good, "200", "503", 1), "status"},
		{"twice", good + "\n\n" + good, "line 3"},
		{"two objects", good + good, "line 1"},
	} {
		if _, err := Parse(strings.NewReader(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if m, err := Parse(strings.NewReader(good)); err != nil || len(m) != 1 {
		t.Errorf("%v %v", m, err)
	}
	if _, err := Play(filepath.Join(t.TempDir(), "none"), nil); err == nil {
		t.Error("played nothing")
	}
}

// A tape that is played without names offers the models of its replies, in its order.
func TestModelsOfTape(t *testing.T) {
	line := func(key, text string) string {
		return `{"key":"` + strings.Repeat(key, 64) + `","path":"/chat/completions","status":200,"content_type":"application/json","text":` + strconv.Quote(text) + "}\n"
	}
	path := filepath.Join(t.TempDir(), "tape")
	if err := os.WriteFile(path, []byte(line("a", `{"model":"lead"}`)+line("b", "data: no JSON")+line("c", `{"model":"help"}`)+line("d", `{"model":"lead"}`)+line("e", `{"model":"`+strings.Repeat("x", 201)+`"}`)), 0o600); err != nil {
		t.Fatal(err)
	}
	u, err := Play(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Models(); !slices.Equal(got, []string{"lead", "help"}) {
		t.Errorf("models %q", got)
	}
	if u, err = Play(path, []string{"own"}); err != nil || !slices.Equal(u.Models(), []string{"own"}) {
		t.Errorf("names that are given: %v %v", u, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"key":"` + strings.Repeat("0", 64) + `","path":"/embeddings","status":200,"content_type":"x","base64":"/w=="}`))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = Parse(bytes.NewReader(b)) })
}
