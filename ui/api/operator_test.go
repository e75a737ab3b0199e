package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
)

// A registered miner, a validator and a stranger get nothing from the routes of
// the operator: every one of the document, and the answer is the same whether
// what is named exists or not.
func TestOperatorRoutes(t *testing.T) {
	f := start(t)
	resp, err := http.Get(f.url + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Summary     string
			RequestBody *struct{} `json:"requestBody"`
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]string{
		"/state": `{"state":"paused"}`, "/retune": `{"max_leases":1,"reason":"x"}`, "/retune-plan": `{"max_leases":1}`, "/gateway-key": `{"revoke":true,"key":"x","reason":"x"}`, "/answer": `{"grant":true,"reason":"x"}`,
		"/fund": `{"coldkey":"x","rao":1}`, "/canary": `{"validators":1,"reason":"x"}`, "{coldkey}": `{"micros":1,"payment":"p","reason":"x"}`, "/webhooks": `{"url":"https://example.org/","types":["*"]}`, "/remove": `{}`,
		"/vettings/take": `{"what":"entry","worker":"x","seconds":60}`, "/extend": `{"token":"x","seconds":60}`, "/verdict": `{"token":"x","verdict":"passed"}`, "/review": `{"pass":true,"reason":"x"}`,
	}
	n := 0
	for path, ops := range doc.Paths {
		for method, o := range ops {
			if !strings.Contains(o.Summary, "(operator)") {
				continue
			}
			n++
			body := ""
			if method == "post" {
				body = `{"reason":"x"}`
				for end, b := range bodies {
					if strings.HasSuffix(path, end) {
						body = b
					}
				}
			}
			answers := map[string]bool{}
			for _, arena := range []string{"arena-1", "nowhere"} {
				at := strings.NewReplacer("{arena}", arena, "{id}", arena, "{netuid}", "1", "{coldkey}", arena).Replace(path)
				for who, k := range map[string]*auth.Key{"miner": f.miner, "validator": f.val, "stranger": f.stranger} {
					status, p, _ := f.send(t, raw{method: strings.ToUpper(method), path: at, body: []byte(body), key: k})
					code, text := p.Code, p.Detail
					if status != http.StatusForbidden || code == "" {
						t.Errorf("%s %s as the %s: %d %s", method, at, who, status, text)
					}
					answers[code] = true
				}
			}
			if len(answers) != 1 {
				t.Errorf("%s %s tells what exists: %v", method, path, answers)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d routes of the operator were found", n)
	}
}
