//go:build interop

package interop

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/auth/signing"
	"github.com/agon-arena/agon/kinds/shopping/signin"
	"github.com/agon-arena/agon/kinds/shopping/signin/signintest"
)

// server is our side of the ORO form: the same routes as peer.py serves.
func server(t *testing.T) (*httptest.Server, *dialect.Verifier) {
	t.Helper()
	g := dialect.NewMetagraph(time.Now, func(context.Context) ([]dialect.Member, error) {
		return []dialect.Member{
			{Hotkey: key(t, auth.Sr25519, "//Alice").SS58(), Validator: true},
			{Hotkey: key(t, auth.Sr25519, "//Bob").SS58()},
			{Hotkey: key(t, auth.Sr25519, "//Eve").SS58(), Validator: true},
		}, nil
	})
	if err := g.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
	eve := key(t, auth.Sr25519, "//Eve").SS58()
	v := &dialect.Verifier{
		Now: time.Now, Replay: auth.NewMemoryReplay(time.Now), Members: g,
		Banned: func(_ context.Context, hotkey string) (bool, error) { return hotkey == eve, nil },
	}
	sessions := &signin.Sessions{Keep: signintest.New(time.Now), Verifier: v}
	v.Dialects = []dialect.Dialect{signin.ORO{}}
	bearer := *v
	bearer.Dialects = []dialect.Dialect{signin.ORO{Sessions: sessions}}
	mux := http.NewServeMux()
	mux.Handle("/auth/", http.StripPrefix("/auth", sessions.Handler()))
	route := func(pattern string, v *dialect.Verifier, need dialect.Need) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
			if err != nil {
				return
			}
			id, refusal := v.Verify(r.Context(), dialect.NewRequest(r, body), need)
			if refusal != nil {
				if err := refusal.Write(w); err != nil {
					t.Error(err)
				}
				return
			}
			w.Header().Set("Content-Type", "application/json")
			out := map[string]string{"hotkey": id.Hotkey}
			if id.Session {
				out["role"] = "miner"
				if id.Member.Validator {
					out["role"] = "validator"
				}
			}
			if err := json.NewEncoder(w).Encode(out); err != nil {
				t.Error(err)
			}
		})
	}
	route("POST /registered", v, dialect.Need{Registered: true})
	route("POST /validator", v, dialect.Need{Validator: true})
	route("GET /session", &bearer, dialect.Need{})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s, v
}

// call sends one request to our server.
func call(t *testing.T, base, method, path, body string, headers map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, strings.TrimSpace(string(b))
}

func oroHeaders(t *testing.T, k *auth.Key, at time.Time, nonce string) map[string]string {
	ts := strconv.FormatInt(at.Unix(), 10)
	return map[string]string{"X-Hotkey": k.SS58(), "X-Timestamp": ts, "X-Nonce": nonce, "X-Signature": "0x" + sign(t, k, signin.Colon(k.SS58(), ts, nonce))}
}

func with(h map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	for k, v := range h {
		out[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			delete(out, pairs[i])
		} else {
			out[pairs[i]] = pairs[i+1]
		}
	}
	return out
}

// The real server and ours answer the same requests with the same status and the same body.
func TestOROServers(t *testing.T) {
	p := start(t, "wallet")
	alice, bob, eve, nobody := key(t, auth.Sr25519, "//Alice"), key(t, auth.Sr25519, "//Bob"), key(t, auth.Sr25519, "//Eve"), key(t, auth.Sr25519, "//Nobody")
	p.ask(t, "oro_app", args{
		"members": []string{alice.SS58(), bob.SS58(), eve.SS58()}, "validators": []string{alice.SS58(), eve.SS58()}, "banned": []string{eve.SS58()},
	})
	ours, _ := server(t)
	now := time.Now()
	both := func(t *testing.T, name, method, path, body string, headers map[string]string) string {
		t.Helper()
		got := p.ask(t, "oro_call", args{"method": method, "path": path, "body": body, "headers": headers})
		status, text := call(t, ours.URL, method, path, body, headers)
		if float64(status) != got["status"] || text != got.text("body") {
			t.Errorf("%s: here %d %s, there %v %s", name, status, text, got["status"], got.text("body"))
		}
		return text
	}
	good := oroHeaders(t, alice, now, "n1")
	for _, c := range []struct {
		name, path string
		headers    map[string]string
	}{
		{"good", "/validator", good},
		{"again", "/validator", good},
		{"miner", "/registered", oroHeaders(t, bob, now, "n1")},
		{"miner as validator", "/validator", oroHeaders(t, bob, now, "n2")},
		{"stranger", "/registered", oroHeaders(t, nobody, now, "n1")},
		{"stranger as validator", "/validator", oroHeaders(t, nobody, now, "n2")},
		{"banned", "/registered", oroHeaders(t, eve, now, "n1")},
		{"nothing", "/registered", nil},
		{"two missing", "/registered", with(good, "X-Timestamp", "", "X-Signature", "")},
		{"no hotkey", "/registered", with(good, "X-Hotkey", "5Grw")},
		{"float time", "/registered", with(good, "X-Timestamp", "1.5")},
		{"underscores in time", "/registered", with(good, "X-Timestamp", "1_0__0")},
		{"word as time", "/registered", with(good, "X-Timestamp", "now")},
		{"five minutes ago", "/registered", oroHeaders(t, alice, now.Add(-5*time.Minute), "n3")},
		{"in five minutes", "/registered", oroHeaders(t, alice, now.Add(5*time.Minute), "n3")},
		{"30 s ago", "/registered", oroHeaders(t, alice, now.Add(-30*time.Second), "n4")},
		{"in 30 s", "/registered", oroHeaders(t, alice, now.Add(30*time.Second), "n5")},
		{"long nonce", "/registered", oroHeaders(t, alice, now, strings.Repeat("n", 257))},
		{"256 nonce", "/registered", oroHeaders(t, alice, now, strings.Repeat("n", 256))},
		{"no hex", "/registered", with(oroHeaders(t, alice, now, "n6"), "X-Signature", "zz")},
		{"short", "/registered", with(oroHeaders(t, alice, now, "n6"), "X-Signature", "0x00")},
		{"0X", "/registered", with(oroHeaders(t, alice, now, "n6"), "X-Signature", "0X"+oroHeaders(t, alice, now, "n6")["X-Signature"][2:])},
		{"of another", "/registered", with(oroHeaders(t, alice, now, "n7"), "X-Hotkey", bob.SS58())},
		{"browser", "/registered", with(oroHeaders(t, alice, now, "n8"), "X-Signature",
			sign(t, alice, []byte("<Bytes>"+string(signin.Colon(alice.SS58(), strconv.FormatInt(now.Unix(), 10), "n8"))+"</Bytes>")))},
	} {
		both(t, c.name, "POST", c.path, "{}", c.headers)
	}
	// Session routes, but for what is random in them.
	random := regexp.MustCompile(`[0-9a-f]{32,64}|\d{10}`)
	session := func(k *auth.Key, change func(hotkey, challenge, signature *string)) (there, here string) {
		body := `{"hotkey":"` + k.SS58() + `"}`
		fill := func(challengeJSON string) string {
			var c struct{ Challenge string }
			if err := json.Unmarshal([]byte(challengeJSON), &c); err != nil {
				t.Fatalf("%s: %v", challengeJSON, err)
			}
			hotkey, signature := k.SS58(), "0x"+sign(t, k, []byte(c.Challenge))
			if change != nil {
				change(&hotkey, &c.Challenge, &signature)
			}
			b, _ := json.Marshal(map[string]string{"hotkey": hotkey, "challenge": c.Challenge, "signature": signature})
			return string(b)
		}
		theirs := p.ask(t, "oro_call", args{"method": "POST", "path": "/auth/challenge", "body": body, "headers": map[string]string{"Content-Type": "application/json"}})
		_, mine := call(t, ours.URL, "POST", "/auth/challenge", body, nil)
		if a, b := random.ReplaceAllString(theirs.text("body"), "#"), random.ReplaceAllString(mine, "#"); a != b {
			t.Errorf("challenge: here %s, there %s", b, a)
		}
		got := p.ask(t, "oro_call", args{"method": "POST", "path": "/auth/session", "body": fill(theirs.text("body")), "headers": map[string]string{"Content-Type": "application/json"}})
		status, text := call(t, ours.URL, "POST", "/auth/session", fill(mine), nil)
		if a, b := random.ReplaceAllString(got.text("body"), "#"), random.ReplaceAllString(text, "#"); a != b || float64(status) != got["status"] {
			t.Errorf("session: here %d %s, there %v %s", status, b, got["status"], a)
		}
		return got.text("body"), text
	}
	bobs := bob.SS58()
	for _, change := range []func(hotkey, challenge, signature *string){
		func(h, _, _ *string) { *h = bobs }, func(_, c, _ *string) { *c = "x" }, func(_, c, _ *string) { *c = "x" + *c }, func(_, _, s *string) { *s = "zz" },
		func(_, _, s *string) { *s = strings.Repeat("0", 128) },
	} {
		session(alice, change)
	}
	session(nobody, nil)
	session(eve, nil)
	there, here := session(bob, nil)
	token := func(s string) string {
		var m struct {
			Token string `json:"session_token"`
		}
		if err := json.Unmarshal([]byte(s), &m); err != nil || m.Token == "" {
			t.Fatalf("no token in %s", s)
		}
		return m.Token
	}
	for _, scheme := range []string{"Bearer ", "bearer   ", "Token "} {
		got := p.ask(t, "oro_call", args{"method": "GET", "path": "/session", "body": "", "headers": map[string]string{"Authorization": scheme + token(there)}})
		status, text := call(t, ours.URL, "GET", "/session", "", map[string]string{"Authorization": scheme + token(here)})
		if float64(status) != got["status"] || text != got.text("body") {
			t.Errorf("%q: here %d %s, there %v %s", scheme, status, text, got["status"], got.text("body"))
		}
	}
	for _, header := range []string{"", "x", "Bearer ses_x"} {
		both(t, "logout "+header, "POST", "/auth/logout", "", with(map[string]string{}, "Authorization", header))
	}
	for range 2 {
		got := p.ask(t, "oro_call", args{"method": "POST", "path": "/auth/logout", "body": "", "headers": map[string]string{"Authorization": "Bearer " + token(there)}})
		if status, text := call(t, ours.URL, "POST", "/auth/logout", "", map[string]string{"Authorization": "Bearer " + token(here)}); float64(status) != got["status"] || text != got.text("body") {
			t.Errorf("logout: here %d %s, there %v %s", status, text, got["status"], got.text("body"))
		}
	}
	both(t, "bad hotkey", "POST", "/auth/challenge", `{"hotkey":"x"}`, map[string]string{"Content-Type": "application/json"})
}

// The unmodified Python client signs in here.
func TestOROClient(t *testing.T) {
	p := start(t, "wallet")
	ours, _ := server(t)
	headers := map[string]string{}
	for k, v := range p.ask(t, "oro_headers", args{"uri": "//Alice"})["headers"].(map[string]any) {
		headers[k] = v.(string)
	}
	for i, want := range []int{200, 401} {
		if status, text := call(t, ours.URL, "POST", "/validator", "{}", headers); status != want {
			t.Errorf("use %d: %d %s", i+1, status, text)
		}
	}
}

// The SDK's own client calls our verifier, its own server's check takes our headers.
func TestNative(t *testing.T) {
	p := start(t, "sdk")
	self, alice := key(t, auth.Sr25519, "//Bob"), key(t, auth.Sr25519, "//Alice")
	v := &dialect.Verifier{Now: time.Now, Replay: auth.NewMemoryReplay(time.Now), Dialects: []dialect.Dialect{dialect.Native{
		Self: self.SS58(), Fields: func(synapse string) []string {
			if synapse == "Dummy" {
				return []string{"text", "number"}
			}
			return nil
		},
	}}}
	verdicts := make(chan string, 8)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		id, refusal := v.Verify(r.Context(), dialect.NewRequest(r, body), dialect.Need{})
		if refusal != nil {
			verdicts <- refusal.Error()
			if err := refusal.Write(w); err != nil {
				t.Error(err)
			}
			return
		}
		verdicts <- id.Hotkey
		w.Header().Set("Content-Type", "application/json")
		if _, err := w.Write([]byte("{}")); err != nil {
			t.Error(err)
		}
	})}}
	s.Start()
	defer s.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	for _, strict := range []bool{false, true} {
		v.Strict = strict
		for _, covered := range []bool{true, false} {
			a := args{"uri": "//Alice", "receiver": self.SS58(), "port": port, "text": "it's \"ü\"", "number": 7, "covered": covered}
			answer := p.ask(t, "dendrite", a)
			got, want := <-verdicts, alice.SS58()
			if strict && !covered {
				want = "Body is not covered by the signature"
			}
			if got != want {
				t.Errorf("covered %t, strict %t: %s, answer %v", covered, strict, got, answer)
			}
		}
	}
	v.Strict = false
	a := args{"uri": "//Alice", "receiver": alice.SS58(), "port": port, "text": "x", "number": 7, "covered": true}
	if p.ask(t, "dendrite", a); !strings.Contains(<-verdicts, "Signature mismatch") {
		t.Error("a call for another receiver was let in")
	}

	nonce := strconv.FormatInt(time.Now().UnixNano(), 10)
	hash := signing.NativeBodyHash()
	headers := map[string]string{
		"bt_header_dendrite_hotkey": alice.SS58(), "bt_header_dendrite_nonce": nonce, "bt_header_dendrite_uuid": "u", "bt_header_dendrite_version": "10000000",
		"bt_header_dendrite_signature": "0x" + sign(t, alice, signing.Native(nonce, alice.SS58(), self.SS58(), "u", hash)),
		"bt_header_axon_hotkey":        self.SS58(), "computed_body_hash": hash, "timeout": "12.0", "name": "Synapse", "header_size": "0", "total_size": "0",
	}
	if got := p.ask(t, "axon_verify", args{"uri": "//Bob", "port": port + 1, "headers": headers}); got["ok"] != true {
		t.Errorf("our headers there: %v", got)
	}
	headers["bt_header_dendrite_uuid"] = "v"
	if got := p.ask(t, "axon_verify", args{"uri": "//Bob", "port": port + 1, "headers": headers}); got["ok"] != false {
		t.Errorf("changed headers there: %v", got)
	}
}
