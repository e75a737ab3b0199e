package play

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestOpenClaw(t *testing.T) {
	inline, later := true, `{"input_tokens":10,"output_tokens":5,"total_cost_usd":0.5}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sandbox-token-12345" || r.Header.Get("x-openclaw-session-key") != "clawbench-x-1" {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		if r.Method == http.MethodGet {
			if r.URL.Path != "/api/sessions/clawbench-x-1/usage" || later == "" {
				http.Error(w, "no", 404)
				return
			}
			_, _ = io.WriteString(w, later)
			return
		}
		b, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(b), `"stream":false`) || strings.Count(string(b), `"role"`) != 1 {
			http.Error(w, "no", 400)
			return
		}
		usage := ""
		if inline {
			usage = `,"x_openclaw_usage":{"input_tokens":100,"output_tokens":20,"cache_read_tokens":1,"cache_write_tokens":2,"total_cost_usd":0.08,"model_usage":[{"model":"a","provider":"p","count":3,"cost_usd":0.06},{"model":"b","provider":"p","count":1,"cost_usd":0.02}]}`
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"done"}}]`+usage+`}`)
	}))
	defer s.Close()
	o := OpenClaw{URL: s.URL}
	r, err := o.Ask(t.Context(), "clawbench-x-1", "go")
	if err != nil || r.Response != "done" || !r.Known || r.Cost.Micros != 80_000 || len(r.Cost.Models) != 2 || r.Cost.Models[0].Share != 0.75 {
		t.Errorf("%v %+v", err, r)
	}
	inline = false
	if r, err = o.Ask(t.Context(), "clawbench-x-1", "go"); err != nil || !r.Known || r.Cost.Micros != 500_000 {
		t.Errorf("asked afterwards: %v %+v", err, r)
	}
	later = ""
	if r, err = o.Ask(t.Context(), "clawbench-x-1", "go"); err != nil || r.Known {
		t.Errorf("not told: %v %+v", err, r)
	}
	later = `{"total_cost_usd":-1}`
	if r, err = o.Ask(t.Context(), "clawbench-x-1", "go"); err != nil || r.Known {
		t.Errorf("below zero: %v %+v", err, r)
	}
	if _, err := o.Ask(t.Context(), "other", "go"); err == nil {
		t.Error("a refusal was an answer")
	}
}
