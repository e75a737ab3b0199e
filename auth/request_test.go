package auth

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
)

var testNow = time.UnixMilli(1_760_000_000_123)

func testVerifier() *Verifier {
	now := func() time.Time { return testNow }
	return &Verifier{Audience: "agon-test", Now: now, Replay: NewMemoryReplay(now)}
}

func TestSignedRequestOverHTTP(t *testing.T) {
	alice, v := mustURI(t, "//Alice"), testVerifier()
	for _, target := range []string{"/v1/x", "/v1/x?", "/v1/x?a=b&c=%20d+e", "/v1/a%2Fb/%C3%BC?q", "/"} {
		for _, body := range []string{"", `{"a":1}`} {
			t.Run(target+body, func(t *testing.T) {
				var got string
				var refused *agon.Error
				srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got, refused = v.Verify(r.Context(), r.Method, RequestTarget(r), r.Header, []byte(body))
				}))
				defer srv.Close()
				req, err := http.NewRequest(http.MethodPost, srv.URL+target, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if err := SignRequest(req, []byte(body), alice, "agon-test", testNow); err != nil {
					t.Fatal(err)
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
				if refused != nil || got != aliceSS58 {
					t.Errorf("got %q, %v", got, refused)
				}
			})
		}
	}
}

// The text that is signed, spelled out once: other people's clients build it by hand.
func TestSigningBytes(t *testing.T) {
	got := string(SigningBytes("POST", "/v1/arenas/demo-golf/submissions?x=1", nil, "6f1d1c5e-1111-4222-8333-444444444444", "1760000000123", "agon-test"))
	want := "agon-v1\nPOST\n/v1/arenas/demo-golf/submissions?x=1\n" +
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n" +
		"6f1d1c5e-1111-4222-8333-444444444444\n1760000000123\nagon-test"
	if got != want {
		t.Errorf("got %q", got)
	}
}

func TestRequestTarget(t *testing.T) {
	for line, want := range map[string]string{
		"GET /a?b HTTP/1.1":              "/a?b",
		"GET /a? HTTP/1.1":               "/a",
		"GET http://h/a?b=1 HTTP/1.1":    "/a?b=1",
		"GET http://h HTTP/1.1":          "/",
		"GET /a%2fb?x=%zz HTTP/1.1":      "/a%2fb?x=%zz",
		"GET //host/path?q HTTP/1.1":     "//host/path?q",
		"GET /a??b HTTP/1.1":             "/a??b",
		"OPTIONS http://h:1/? HTTP/1.1":  "/",
		"GET /%e2%82%ac?%e2%82 HTTP/1.1": "/%e2%82%ac?%e2%82",
	} {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(line + "\r\nHost: h\r\n\r\n")))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if got := RequestTarget(r); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}

func TestVerifyRefuses(t *testing.T) {
	alice := mustURI(t, "//Alice")
	const method, target, nonce = "POST", "/v1/x?y=z", "6f1d1c5e-1111-4222-8333-444444444444"
	body := []byte("body")
	stamp := func(d time.Duration) string { return strconv.FormatInt(testNow.Add(d).UnixMilli(), 10) }
	sign := func(timestamp, nonce, audience string) http.Header {
		sig, err := alice.Sign(SigningBytes(method, target, body, nonce, timestamp, audience))
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		h.Set(HeaderHotkey, aliceSS58)
		h.Set(HeaderTimestamp, timestamp)
		h.Set(HeaderNonce, nonce)
		h.Set(HeaderSignature, strings.ToUpper(hexString(sig)))
		return h
	}
	set := func(pairs ...string) func(http.Header) {
		return func(h http.Header) {
			for i := 0; i < len(pairs); i += 2 {
				h.Set(pairs[i], pairs[i+1])
			}
		}
	}
	for name, c := range map[string]struct {
		header  http.Header
		change  func(http.Header)
		method  string
		target  string
		body    string
		code    string // "" = accepted
		field   string
		message string
	}{
		"good":                    {header: sign(stamp(0), nonce, "agon-test")},
		"0x":                      {header: sign(stamp(0), nonce, "agon-test"), change: func(h http.Header) { h.Set(HeaderSignature, "0x"+h.Get(HeaderSignature)) }},
		"60 s old":                {header: sign(stamp(-60*time.Second), nonce, "agon-test")},
		"60 s ahead":              {header: sign(stamp(60*time.Second), nonce, "agon-test")},
		"stale":                   {header: sign(stamp(-60001*time.Millisecond), nonce, "agon-test"), code: CodeStale},
		"future":                  {header: sign(stamp(60001*time.Millisecond), nonce, "agon-test"), code: CodeStale},
		"seconds":                 {header: sign(strconv.FormatInt(testNow.Unix(), 10), nonce, "agon-test"), code: CodeStale},
		"no hotkey":               {header: sign(stamp(0), nonce, "agon-test"), change: func(h http.Header) { h.Del(HeaderHotkey) }, code: CodeMissingSignature, field: HeaderHotkey},
		"no timestamp":            {header: sign(stamp(0), nonce, "agon-test"), change: func(h http.Header) { h.Del(HeaderTimestamp) }, code: CodeMissingSignature, field: HeaderTimestamp},
		"no nonce":                {header: sign(stamp(0), nonce, "agon-test"), change: func(h http.Header) { h.Del(HeaderNonce) }, code: CodeMissingSignature, field: HeaderNonce},
		"empty signature":         {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderSignature, ""), code: CodeMissingSignature, field: HeaderSignature},
		"two hotkeys":             {header: sign(stamp(0), nonce, "agon-test"), change: func(h http.Header) { h.Add(HeaderHotkey, aliceSS58) }, code: CodeBadSignature, field: HeaderHotkey},
		"bad hotkey":              {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderHotkey, "5Grw"), code: CodeBadSignature, field: HeaderHotkey},
		"other prefix":            {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderHotkey, encodeSS58(alice.Public(), 0)), code: CodeBadSignature, field: HeaderHotkey},
		"signed number":           {header: sign("+"+stamp(0), nonce, "agon-test"), code: CodeBadSignature, field: HeaderTimestamp},
		"fraction":                {header: sign(stamp(0)+".0", nonce, "agon-test"), code: CodeBadSignature, field: HeaderTimestamp},
		"huge time":               {header: sign(strings.Repeat("9", 30), nonce, "agon-test"), code: CodeBadSignature, field: HeaderTimestamp},
		"bad nonce":               {header: sign(stamp(0), "n", "agon-test"), code: CodeBadSignature, field: HeaderNonce},
		"braced nonce":            {header: sign(stamp(0), "{"+nonce+"}", "agon-test"), code: CodeBadSignature, field: HeaderNonce},
		"short signature":         {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderSignature, "00"), code: CodeBadSignature, field: HeaderSignature, message: "128 hex"},
		"signature not hex":       {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderSignature, strings.Repeat("zz", 64)), code: CodeBadSignature, field: HeaderSignature, message: "128 hex"},
		"zero signature":          {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderSignature, strings.Repeat("00", 64)), code: CodeBadSignature, field: HeaderSignature, message: "not hold"},
		"other audience":          {header: sign(stamp(0), nonce, "another"), code: CodeBadSignature, message: "not hold"},
		"other method":            {header: sign(stamp(0), nonce, "agon-test"), method: "PUT", code: CodeBadSignature, message: "not hold"},
		"other query":             {header: sign(stamp(0), nonce, "agon-test"), target: "/v1/x?y=y", code: CodeBadSignature, message: "not hold"},
		"other body":              {header: sign(stamp(0), nonce, "agon-test"), body: "Body", code: CodeBadSignature, message: "not hold"},
		"other key":               {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderHotkey, mustURI(t, "//Bob").SS58()), code: CodeBadSignature, message: "not hold"},
		"other nonce":             {header: sign(stamp(0), nonce, "agon-test"), change: set(HeaderNonce, strings.Replace(nonce, "6", "7", 1)), code: CodeBadSignature, message: "not hold"},
		"stale before bad nonce":  {header: sign(stamp(-time.Hour), "n", "agon-test"), code: CodeStale},
		"hotkey before timestamp": {header: sign("x", nonce, "agon-test"), change: set(HeaderHotkey, "x"), code: CodeBadSignature, field: HeaderHotkey},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change != nil {
				c.change(c.header)
			}
			m, tg, b := method, target, body
			if c.method != "" {
				m = c.method
			}
			if c.target != "" {
				tg = c.target
			}
			if c.body != "" {
				b = []byte(c.body)
			}
			got, err := testVerifier().Verify(t.Context(), m, tg, c.header, b)
			if c.code == "" {
				if err != nil || got != aliceSS58 {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if err == nil || got != "" {
				t.Fatalf("accepted as %q", got)
			}
			if err.Code != c.code || err.Status != 401 || c.field != "" && err.Field != c.field || !strings.Contains(err.Message, c.message) {
				t.Errorf("got %d %s %s %q", err.Status, err.Code, err.Field, err.Message)
			}
		})
	}
}

func hexString(b []byte) string {
	const digits = "0123456789abcdef"
	var s strings.Builder
	for _, c := range b {
		s.WriteByte(digits[c>>4])
		s.WriteByte(digits[c&15])
	}
	return s.String()
}

func TestReplay(t *testing.T) {
	alice, v := mustURI(t, "//Alice"), testVerifier()
	req := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
	if err := SignRequest(req, nil, alice, "agon-test", testNow); err != nil {
		t.Fatal(err)
	}
	// A request that fails must not burn the nonce of the one that would hold.
	if _, err := v.Verify(t.Context(), "POST", "/v1/y", req.Header, nil); err == nil || err.Code != CodeBadSignature {
		t.Fatalf("wrong path: %v", err)
	}
	var fresh, replayed atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			h := req.Header.Clone()
			if i%2 == 1 { // the same uuid in capitals is not signed, hence no second chance
				h.Set(HeaderSignature, strings.ToUpper(h.Get(HeaderSignature)))
			}
			switch _, err := v.Verify(context.Background(), "POST", "/v1/x", h, nil); {
			case err == nil:
				fresh.Add(1)
			case err.Code == CodeReplayed:
				replayed.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if fresh.Load() != 1 || replayed.Load() != 99 {
		t.Errorf("%d fresh, %d replayed", fresh.Load(), replayed.Load())
	}
}

// forgetful is a guard that keeps a nonce for exactly as long as it was told.
type forgetful struct {
	now  func() time.Time
	kept map[string]time.Time
}

func (g *forgetful) Seen(_ context.Context, scheme, hotkey, nonce string, until time.Time) (bool, error) {
	key := scheme + " " + hotkey + " " + nonce
	if last, ok := g.kept[key]; ok && !last.Before(g.now()) {
		return false, nil
	}
	g.kept[key] = until
	return true, nil
}

// A request is taken once, however far its stamp is from the server's clock and
// whenever it is sent again: its nonce is kept until its stamp is stale.
func TestReplayNeverFresh(t *testing.T) {
	alice := mustURI(t, "//Alice")
	for _, ahead := range []time.Duration{-60 * time.Second, -30 * time.Second, 0, 30 * time.Second, 59 * time.Second, 60 * time.Second} {
		now := testNow
		clock := func() time.Time { return now }
		guard := &forgetful{clock, map[string]time.Time{}}
		v := &Verifier{Audience: "agon-test", Now: clock, Replay: guard}
		req := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
		if err := SignRequest(req, nil, alice, "agon-test", testNow.Add(ahead)); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Verify(t.Context(), "POST", "/v1/x", req.Header, nil); err != nil {
			t.Fatalf("stamped %v ahead: %v", ahead, err)
		}
		stale := false
		for ; now.Before(testNow.Add(5 * time.Minute)); now = now.Add(500 * time.Millisecond) {
			_, err := v.Verify(t.Context(), "POST", "/v1/x", req.Header, nil)
			switch {
			case err == nil:
				t.Fatalf("stamped %v ahead: taken again after %v", ahead, now.Sub(testNow))
			case err.Code == CodeStale:
				stale = true
			case err.Code != CodeReplayed || stale:
				t.Fatalf("stamped %v ahead: after %v %v", ahead, now.Sub(testNow), err)
			}
		}
		// Nor is it kept for much longer: nonces are the guard's memory.
		for _, until := range guard.kept {
			if over := until.Sub(testNow.Add(ahead + DefaultWindow)); over < 0 || over > 5*time.Second {
				t.Errorf("stamped %v ahead: kept %v beyond its window", ahead, over)
			}
		}
		if !stale {
			t.Errorf("stamped %v ahead: never stale", ahead)
		}
	}
}

type brokenGuard struct{}

func (brokenGuard) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return true, errors.New("disk full")
}

func TestReplayGuardFails(t *testing.T) {
	v := testVerifier()
	v.Replay = brokenGuard{}
	req := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
	if err := SignRequest(req, nil, mustURI(t, "//Alice"), "agon-test", testNow); err != nil {
		t.Fatal(err)
	}
	if got, err := v.Verify(t.Context(), "POST", "/v1/x", req.Header, nil); err == nil || err.Status != 500 || err.Fault != agon.FaultPlatform || got != "" {
		t.Errorf("got %q %v", got, err)
	}
}

func TestMemoryReplayForgets(t *testing.T) {
	now := testNow
	m := NewMemoryReplay(func() time.Time { return now })
	for i := range 1024 {
		if fresh, _ := m.Seen(t.Context(), "s", "h", strconv.Itoa(i), now.Add(time.Second)); !fresh {
			t.Fatal("not fresh")
		}
	}
	now = now.Add(2 * time.Second)
	if fresh, _ := m.Seen(t.Context(), "s", "h", "new", now.Add(time.Second)); !fresh || len(m.seen) != 1 {
		t.Errorf("%d entries kept", len(m.seen))
	}
}

func FuzzVerify(f *testing.F) {
	f.Add(aliceSS58, "1760000000123", "6f1d1c5e-1111-4222-8333-444444444444", strings.Repeat("0", 128))
	f.Add(aliceSS58, "-1", "{6f1d1c5e-1111-4222-8333-444444444444}", "0x")
	f.Fuzz(func(t *testing.T, hotkey, timestamp, nonce, signature string) {
		h := http.Header{HeaderHotkey: {hotkey}, HeaderTimestamp: {timestamp}, HeaderNonce: {nonce}, HeaderSignature: {signature}}
		if got, err := testVerifier().Verify(t.Context(), "GET", "/", h, nil); err == nil {
			t.Errorf("accepted as %s", got)
		}
	})
}

func BenchmarkVerifyRequest(b *testing.B) {
	alice, v := mustURI(b, "//Alice"), testVerifier()
	req := httptest.NewRequest(http.MethodPost, "/v1/x", nil)
	if err := SignRequest(req, nil, alice, "agon-test", testNow); err != nil {
		b.Fatal(err)
	}
	v.Replay = alwaysFresh{}
	benchCPU(b, func() {
		if _, err := v.Verify(b.Context(), "POST", "/v1/x", req.Header, nil); err != nil {
			b.Fatal(err)
		}
	})
}

type alwaysFresh struct{}

func (alwaysFresh) Seen(context.Context, string, string, string, time.Time) (bool, error) {
	return true, nil
}
