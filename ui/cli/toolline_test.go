package cli

import "testing"

func TestToolLine(t *testing.T) {
	for in, want := range map[string]string{
		`{"tool":{"tool":"search_web","outcome":"ok","request":{"args":[],"kwargs":{"num":3,"query":"Freight\u001b[2J that goes"}},"results":[{},{},{}],"cost_micros":2500}}`: `search_web "Freight that goes" ok 3 results $0.0025`,
		`{"tool":{"tool":"fetch","outcome":"error","request":{"args":["http://x"]},"error":"gone"}}`:                                                                          `fetch "http://x" error gone`,
		`{"receipt":{"model":"m"}}`: "",
		`not JSON`:                  "",
	} {
		if got := toolLine([]byte(in)); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}
