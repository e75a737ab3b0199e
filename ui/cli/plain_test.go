package cli_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/internal/plain"
)

// raw steers a terminal or misleads a reader in every way that plain knows.
const raw = "MARK\x1b[31m\x1b]0;t\x07\u009b1m\r\b\x00\u202e\u2066\u200f\u2028\ufeff\U000e0041\u0085 END"

// sow fills every field of v, to a depth. Where names keeps what a view needs
// to find its thing, that field has the given word.
func sow(v reflect.Value, names map[string]string, depth int) {
	if depth > 9 {
		return
	}
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(golden))
		return
	case reflect.TypeFor[json.RawMessage]():
		b, err := json.Marshal(map[string]any{
			"text": raw, "stream": raw, "phase": raw, "error": raw, "detail": raw, "receipt": map[string]any{"model": raw, "provider": raw, "outcome": raw, "id": raw},
			"message": map[string]any{"role": raw, "content": raw, "tool_calls": []any{map[string]any{"name": raw, "arguments": raw}}}, "exit": map[string]any{"limit": raw}, raw: raw,
		})
		if err != nil {
			panic(err)
		}
		v.SetBytes(b)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(raw)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		sow(v.Elem(), names, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(raw))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		sow(v.Index(0), names, depth+1)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		val := reflect.New(v.Type().Elem()).Elem()
		sow(val, names, depth+1)
		v.SetMapIndex(reflect.ValueOf(raw).Convert(v.Type().Key()), val)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			sow(v.Field(i), names, depth+1)
			if word, ok := names[f.Name]; ok && v.Field(i).Kind() == reflect.String {
				v.Field(i).SetString(word)
			}
		}
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Interface:
		if v.NumMethod() == 0 {
			v.Set(reflect.ValueOf(raw))
		}
	}
}

// sown is a /v1 of which every answer holds raw in every field.
func sown(t *testing.T, names map[string]string) *httptest.Server {
	mux := http.NewServeMux()
	for pattern, v := range map[string]any{
		"/v1/overview": &client.Overview{}, "/v1/arenas": &client.Page[client.Arena]{}, "/v1/arenas/{id}": &client.Arena{}, "/v1/arenas/{id}/board": &client.Board{},
		"/v1/submissions": &client.Page[client.Submission]{}, "/v1/submissions/{id}": &client.Submission{}, "/v1/runs": &client.Page[client.Run]{}, "/v1/runs/{id}": &client.Run{},
		"/v1/runs/{id}/events": &client.Page[agon.Event]{}, "/v1/operator/log": &client.Page[agon.OperatorAction]{}, "/v1/webhooks": &client.Webhooks{}, "/v1/arenas/{id}/vettings": &client.Page[client.Vetting]{}, "/v1/ledger/{id}": &client.Metagraph{},
		"/v1/arenas/{id}/metagraph": &client.Metagraph{}, "/v1/validators/standing": &client.Standings{}, "/v1/runs/{id}/judgings": &client.Page[agon.Rejudging]{},
	} {
		sow(reflect.ValueOf(v).Elem(), names, 0)
		if next := reflect.ValueOf(v).Elem().FieldByName("Next"); next.IsValid() && next.CanSet() {
			next.SetZero() // one page
		}
		mux.HandleFunc("GET "+pattern, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(pattern, "/events") && r.URL.Query().Get("after") != "" {
				send(w, 200, client.Page[agon.Event]{Items: []agon.Event{}})
				return
			}
			send(w, 200, v)
		})
	}
	mux.HandleFunc("GET /v1/server", func(w http.ResponseWriter, _ *http.Request) {
		send(w, 200, client.Server{Name: raw, Version: agon.Version, Audience: "agon:test", Operator: raw, Time: golden})
	})
	mux.HandleFunc("/", fail(404, raw, raw, raw)) // errors of a server hold what it likes too
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv
}

// TestTerminalIsPlain runs every view over answers that hold raw in every
// field, as text and as JSON, on a terminal and in a pipe: nothing that steers
// a terminal is printed, to stdout or to stderr.
func TestTerminalIsPlain(t *testing.T) {
	t.Chdir(t.TempDir())
	more := map[string][]string{
		"standing":          {"validator", "standing"},
		"standing of one":   {"validator", "standing", "MARK"},
		"no such arena":     {"arena", "view", "nowhere"},
		"error of a server": {"submission", "appeal", "sub-scored", "--reason", "x"},
		"logs":              {"run", "logs", "run-scored", "-o", "jsonl"},
		"explain":           {"board", "demo-golf", "-o", "json"},
	}
	all := map[string][]string{}
	for _, m := range []map[string][]string{views, more} {
		for name, args := range m {
			all[name] = args
		}
	}
	shown := map[string]bool{}
	for _, names := range []map[string]string{
		{},
		{"ID": "sub-scored", "Run": "run-scored", "Arena": "demo-golf", "Submission": "sub-scored", "State": "scored", "Digest": string(agon.Sum([]byte("x")))},
		{"ID": "demo-golf", "Run": "run-scored", "Arena": "demo-golf", "State": "failed"},
	} {
		srv := sown(t, names)
		for name, args := range all {
			for _, width := range []int{110, 40, 0} {
				a, out, errOut := goldenApp("home", srv.URL, width, map[string]string{"NO_COLOR": "1"})
				a.Main(t.Context(), args)
				for where, s := range map[string]string{"stdout": out.String(), "stderr": errOut.String()} {
					if strings.Contains(s, "MARK") {
						shown[name] = true
					}
					for i, r := range s {
						if _, n := utf8.DecodeRuneInString(s[i:]); plain.Unsafe(r) || r == utf8.RuneError && n == 1 {
							t.Errorf("%s, width %d, %s: %q", name, width, where, s[max(0, i-60):min(len(s), i+20)])
							break
						}
					}
				}
			}
		}
	}
	if len(shown) < 12 {
		t.Errorf("only %d views show the text: %v", len(shown), shown)
	}
}

// The log of a process quotes what is not plain.
func TestLogIsPlain(t *testing.T) {
	a, _, errOut := goldenApp("home", "", 0, nil)
	c, done, err := a.Common()
	if err != nil {
		t.Fatal(err)
	}
	c.Log.Warn(raw, "run", raw, raw, raw, slog.Group(raw, "x", raw))
	c.Say("%s", raw)
	done()
	s := errOut.String()
	if strings.Count(s, "MARK") < 4 {
		t.Errorf("the log lost what it was told: %q", s)
	}
	for _, r := range s {
		if plain.Unsafe(r) {
			t.Errorf("%U reached the log: %q", r, s)
		}
	}
}
