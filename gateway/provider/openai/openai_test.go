package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/gateway/provider"
)

const key = "sk-planted-0123456789abcdefghijklmnop"

func env(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }

func TestFromEnv(t *testing.T) {
	for _, c := range []struct {
		name string
		kv   map[string]string
		ok   bool
		err  string
	}{
		{"none", nil, false, ""},
		{"full", map[string]string{"AGON_LLM_BASE_URL": "https://h/v1", "AGON_LLM_API_KEY": key + "\n", "AGON_LLM_MODEL": " a, b ,"}, true, ""},
		{"local", map[string]string{"AGON_LLM_BASE_URL": "http://h/v1", "AGON_LLM_MODEL": "a"}, true, ""},
		{"no model", map[string]string{"AGON_LLM_BASE_URL": "https://h/v1", "AGON_LLM_API_KEY": key}, false, "AGON_LLM_MODEL"},
		{"no url", map[string]string{"AGON_LLM_API_KEY": key}, false, "AGON_LLM_BASE_URL"},
	} {
		cfg, ok, err := FromEnv(env(c.kv))
		if ok != c.ok || (err == nil) != (c.err == "") || err != nil && (!strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), key)) {
			t.Errorf("%s: %+v %v %v", c.name, cfg, ok, err)
		}
		if c.name == "full" && (cfg.Key != key || strings.Join(cfg.Models, "|") != "a|b") {
			t.Errorf("%+v", cfg)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []Config{
		{BaseURL: "", Models: []string{"m"}},
		{BaseURL: "ftp://h", Models: []string{"m"}},
		{BaseURL: "https://user:" + key + "@h/v1", Models: []string{"m"}},
		{BaseURL: "https://h/v1?key=" + key, Models: []string{"m"}},
		{BaseURL: "https://h/v1#" + key, Models: []string{"m"}},
		{BaseURL: "https://%zz" + key, Models: []string{"m"}},
		{BaseURL: "https://h/v1"},
		{BaseURL: "https://h/v1", Models: []string{"m"}, Key: key + "\nX-Evil: 1"},
	} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// No error of a connection names the address or the key.
func TestErrorsAreNeutral(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	addr := srv.URL
	srv.Close()
	u, err := New(Config{BaseURL: addr + "/" + key, Key: key, Models: []string{"m"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = u.Do(t.Context(), provider.Request{Path: provider.PathChat})
	var f *provider.Failure
	if !errors.As(err, &f) || f.Class != provider.ClassServer || err.Error() != "ask provider: server" || strings.Contains(f.Detail, key) {
		t.Errorf("%v %+v", err, f)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	_, err = u.Do(ctx, provider.Request{Path: provider.PathChat})
	if !errors.As(err, &f) || f.Class != provider.ClassTimeout {
		t.Errorf("%v", err)
	}
}

// The key is found however the reply is split and read, even byte by byte, and
// no part of it is handed out. Other text arrives as it was sent.
func TestEchoIsFound(t *testing.T) {
	read := func(step, room int, parts ...string) (string, error) {
		t.Helper()
		var rs []io.Reader
		for _, text := range parts {
			for i := 0; i < len(text); i += step {
				rs = append(rs, strings.NewReader(text[i:min(i+step, len(text))]))
			}
		}
		b := &body{
			u: &Upstream{cfg: Config{Key: key, Idle: time.Hour, MaxReply: 1 << 20}, secret: key}, left: 1 << 20,
			rc: io.NopCloser(io.MultiReader(rs...)), idle: time.NewTimer(time.Hour),
		}
		var out strings.Builder
		p := make([]byte, room)
		for {
			n, err := b.Read(p)
			out.Write(p[:n])
			if err != nil {
				return out.String(), err
			}
		}
	}
	for _, room := range []int{1, 7, len(key), 2*len(key) + 1, 4096} {
		for step := 1; step < 40; step += 3 {
			for _, before := range []string{"", "x", strings.Repeat("s", 40), key[:20], strings.Repeat("a", 100)} {
				got, err := read(step, room, before+key+"tail")
				if f := (*provider.Failure)(nil); !errors.As(err, &f) || f.Class != provider.ClassBadReply || got != before {
					t.Errorf("step %d, room %d: %q gives %q, %v", step, room, before+key, got, err)
				}
			}
			for _, text := range []string{"", key[:36] + "-" + key[1:] + "-", key[:len(key)/2-1], strings.Repeat("s", 100)} {
				if got, err := read(step, room, text); err != io.EOF || got != text {
					t.Errorf("step %d, room %d: %q gives %q, %v", step, room, text, got, err)
				}
			}
			if got, err := read(step, room, "cut "+key[:len(key)-1]); err == io.EOF || got != "cut " {
				t.Errorf("step %d, room %d: a cut key gives %q, %v", step, room, got, err)
			}
		}
	}
}

func TestClean(t *testing.T) {
	u := &Upstream{cfg: Config{Key: key}, secret: key}
	for _, s := range []string{
		"Incorrect API key provided: " + key, "cut: " + key[:30], key[18:] + " half", "\x1b[31mred\x00\xff", strings.Repeat("é", 600),
	} {
		got := u.clean(s)
		if strings.Contains(got, key[:18]) || strings.Contains(got, key[18:]) || strings.ContainsAny(got, "\x1b\x00") || len(got) > 310 {
			t.Errorf("%q -> %q", s, got)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "-1": 0, "1e9": 0, "999999999": time.Hour, "Wed, 21 Oct 2026 07:28:00 GMT": 0,
	} {
		if got := retryAfter(in); got != want {
			t.Errorf("%q: %v", in, got)
		}
	}
}

// A client that reads slowly does not make the provider look silent.
func TestSlowReaderIsNotSilence(t *testing.T) {
	more := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a")
		_ = http.NewResponseController(w).Flush()
		<-more
		_, _ = io.WriteString(w, "b")
	}))
	defer srv.Close()
	u, err := New(Config{BaseURL: srv.URL, Models: []string{"m"}, Idle: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	rep, err := u.Do(t.Context(), provider.Request{Path: provider.PathChat})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rep.Body.Close() }()
	if _, err := rep.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if rep.Body.(*body).idle.Stop() {
		t.Error("the timer runs while nobody reads")
	}
	close(more)
	if b, err := io.ReadAll(rep.Body); err != nil || string(b) != "b" {
		t.Errorf("%q %v", b, err)
	}
}
