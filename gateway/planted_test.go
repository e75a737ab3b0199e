package gateway

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/cassette"
	"github.com/agon-arena/agon/gateway/provider/openai"
	"github.com/agon-arena/agon/gateway/tool"
	"github.com/agon-arena/agon/gateway/tool/search"
)

// A key is planted in the upstream, whose server says it back in every way it
// can. Afterwards it is in no reply, event, receipt, log line, nor in any file
// that gateway and cassette have written, whole or in half.
func TestPlantedKey(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, filepath.Join(dir, "gateway.db"))
	var n atomic.Int64
	u := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		auth := r.Header.Get("Authorization")
		if auth != "Bearer "+testKey {
			t.Errorf("authorization %q", auth)
		}
		if strings.Contains(string(b), testKey) {
			t.Error("the key is in a body")
		}
		switch n.Add(1) % 7 {
		case 0:
			w.WriteHeader(401)
			_, _ = io.WriteString(w, `{"error":"bad key `+auth+`"}`)
		case 1:
			says(strings.Replace(answerJSON, "hi", auth, 1))(w, r)
		case 2:
			w.Header().Set("Content-Type", "application/json; key="+testKey)
			w.WriteHeader(422)
			_, _ = io.WriteString(w, `{"error":"`+testKey+`"}`)
		case 3:
			http.Redirect(w, r, "http://127.0.0.1:1/"+testKey, http.StatusTemporaryRedirect)
		case 4:
			streams(false, chunk("a"), "data: "+testKey[:20], testKey[20:]+"\n\n", doneChunk)(w, r)
		case 5:
			w.Header().Set("Retry-After", testKey)
			w.WriteHeader(503)
		default:
			w.Header().Set("X-Key", testKey)
			says(answerJSON)(w, r)
		}
	}, func(c *openai.Config) { c.Name = "planted" })
	tape, err := cassette.Record(filepath.Join(dir, "tape.jsonl"), u)
	if err != nil {
		t.Fatal(err)
	}
	var logged syncBuffer
	g := start(t, Config{
		Upstreams: []provider.Upstream{tape}, Books: durable(t, st),
		Log: slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	var l log
	s := open(t, g, policy("m"), &l)
	var all strings.Builder
	good := 0
	for i := range 28 {
		body := strings.Replace(hello, "hello", strings.Repeat("x", i+1), 1) // no two alike: the tape must not answer
		if i%2 == 1 {
			body = strings.Replace(body, "{", `{"stream":true,`, 1)
		}
		r := post(t, s, chatPath, body)
		if r.status == 200 {
			good++
		}
		for k, v := range r.header {
			all.WriteString(k + strings.Join(v, " "))
		}
		all.WriteString(r.body)
		if r.err != nil {
			all.WriteString(r.err.Error())
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if good == 0 || len(l.of(agon.EventModel)) != 28 {
		t.Errorf("%d good calls of %d recorded: the test looks at nothing", good, len(l.of(agon.EventModel)))
	}
	all.WriteString(l.text(t) + logged.String())
	if err := tape.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	if err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		all.Write(b)
		files++
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if files < 2 {
		t.Errorf("%d files", files)
	}
	wantNoKey(t, all.String())
}

// wantNoKey looks for the planted key, whole and in half.
func wantNoKey(t *testing.T, all string) {
	t.Helper()
	for _, part := range []string{testKey, testKey[:len(testKey)/2], testKey[len(testKey)/2:]} {
		if i := strings.Index(all, part); i >= 0 {
			t.Errorf("%q is out: …%.200s", part, all[max(0, i-100):])
		}
	}
}

// The same for a tool whose provider says the key back: in hits, in an error,
// escaped, cut, as a name, in a header, in a redirect.
func TestPlantedToolKey(t *testing.T) {
	dir := t.TempDir()
	st := openStore(t, filepath.Join(dir, "gateway.db"))
	escaped := `\u0073` + testKey[1:]
	hit := func(text string) string {
		return `{"data":[{"link":"https://a/","snippet":"` + text + `","title":"t"}]}`
	}
	answers := []struct {
		status int
		body   string
		good   bool
	}{
		{200, hit("nothing"), true},
		{200, hit(testKey), false},
		{200, hit(escaped), false},
		{200, hit(testKey[:len(testKey)/2+1]), false},
		{200, hit(strings.Repeat("x", 290) + testKey), false}, // the title's and the snippet's limits cut it in two
		{200, `{"data":[],"` + testKey + `":1}`, false},
		{401, `{"error":"bad key ` + testKey + `"}`, false},
		{422, testKey, false},
		{307, testKey, false},
		{503, testKey, false},
	}
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("authorization %q", r.Header.Get("Authorization"))
		}
		a := answers[int(n.Load())]
		w.Header().Set("X-Key", testKey)
		w.Header().Set("Location", "http://127.0.0.1:1/"+testKey)
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(srv.Close)
	src, err := search.NewHTTP("seeker", srv.URL, testKey)
	if err != nil {
		t.Fatal(err)
	}
	var logged syncBuffer
	g := start(t, Config{
		Upstreams: []provider.Upstream{upstream(t, says(answerJSON))}, Books: durable(t, st),
		Tools: []tool.Tool{search.New(src, tool.Price{PerCall: 100, Version: "test"})},
		Log:   slog.New(slog.NewJSONHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	p := policy("m")
	p.Dialects, p.Tools = append(p.Dialects, DialectTools), []string{"search_web"}
	var l log
	s := open(t, g, p, &l)
	var all strings.Builder
	for i, a := range answers {
		n.Store(int64(i))
		status, word, body := dispatch(t, s, `{"query":"q`+strings.Repeat("x", i)+`"}`, "", "")
		if good := strings.Contains(body, "nothing"); good != a.good {
			t.Errorf("answer %d: %d %s %s", i, status, word, body)
		}
		all.WriteString(word + body)
	}
	receipts := s.Receipts()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(receipts) != len(answers) {
		t.Errorf("%d receipts of %d calls: the test looks at too little", len(receipts), len(answers))
	}
	fmt.Fprintf(&all, "%+v%s%s", receipts, l.text(t), logged.String())
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	wantNoKey(t, all.String())
}
