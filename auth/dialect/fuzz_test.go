package dialect

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// No bytes of a request may crash a dialect, let anybody in unsigned, or get an
// answer that is not JSON.
func FuzzVerify(f *testing.F) {
	alice := key(f, "//Alice").SS58()
	f.Add("POST", "/x", "a=1", "X-Hotkey: "+alice+"\nX-Timestamp: 1760000000\nX-Nonce: n\nX-Signature: 00", "{}")
	f.Add("GET", "/", "", `Authorization: Bittensor ss58="a",sig="00"`, "")
	f.Add("POST", "/D", "", "bt_header_dendrite_hotkey: "+alice+"\nbt_header_dendrite_nonce: 1\ntimeout: 1e308", "[")
	f.Add("POST", "/", "", "Epistula-Version: 2\nEpistula-Request-Signature: 0x", "")
	f.Add("POST", "/", "", "Agon-Nonce: 1\nAuthorization: Bearer x", `{"a":1}`)
	v := verifier(f, Caster{}, Epistula{}, Native{Self: alice, Fields: func(string) []string { return []string{"a"} }}, Agon{Audience: "a"}, ORO{}, BitSota{})
	f.Fuzz(func(t *testing.T, method, path, query, headers, body string) {
		h := http.Header{}
		for line := range strings.Lines(headers) {
			name, value, _ := strings.Cut(line, ":")
			h.Add(name, strings.TrimSpace(value))
		}
		r := &Request{Method: method, Path: path, Query: query, Header: h, Body: []byte(body)}
		id, refusal := v.Verify(context.Background(), r, Need{})
		if refusal == nil {
			t.Fatalf("let in %+v", id)
		}
		if !json.Valid(refusal.JSON()) || refusal.Status < 400 || refusal.Status >= 500 {
			t.Fatalf("answer %d %s", refusal.Status, refusal.JSON())
		}
	})
}

func FuzzParseCaster(f *testing.F) {
	f.Add(`Bittensor ss58="a",sig="00"`)
	f.Fuzz(func(t *testing.T, s string) {
		hotkey, sig, ok := parseCaster(s)
		if ok && (hotkey == "" || sig == "" || strings.Contains(hotkey, `"`)) {
			t.Fatalf("%q: %q %q", s, hotkey, sig)
		}
	})
}

func FuzzParseTicket(f *testing.F) {
	f.Add("eyJ2IjoyfQ==")
	f.Fuzz(func(t *testing.T, s string) {
		if ticket, err := ParseTicket(s); err == nil && (ticket.Hotkey == "" || (ticket.CreditID == "") == (ticket.QuoteID == "")) {
			t.Fatalf("%q: %+v", s, ticket)
		}
	})
}

func FuzzParseFileInfo(f *testing.F) {
	f.Add("a:b:1")
	f.Fuzz(func(t *testing.T, s string) {
		if info, err := ParseFileInfo(s); err == nil && (info.Hotkey == "" || len(info.SHA256) != 64) {
			t.Fatalf("%q: %+v", s, info)
		}
	})
}

func FuzzPythonInt(f *testing.F) {
	f.Add(" +1_000 ")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := pythonInt(s); err == nil && (n > 1<<52 || n < -1<<52) {
			t.Fatalf("%q: %d", s, n)
		}
	})
}
