//go:build interop

package interop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/gateway/provider/scripted"
)

// oroProblem is what the test needs of a suite.
type oroProblem struct {
	ID     string          `json:"problem_id"`
	Query  string          `json:"query"`
	Reward json.RawMessage `json:"reward"`
}

// answer are the ids that are right, and the words to search the first by.
func (p *oroProblem) answer(t *testing.T) (ids, words string) {
	t.Helper()
	type item struct {
		ID    string   `json:"product_id"`
		Title []string `json:"title"`
	}
	var list []item
	if json.Unmarshal(p.Reward, &list) != nil {
		list = make([]item, 1)
		if err := json.Unmarshal(p.Reward, &list[0]); err != nil {
			t.Fatal(err)
		}
	}
	for i, x := range list {
		if i > 0 {
			ids += ","
		}
		ids += x.ID
	}
	if len(list[0].Title) == 0 {
		t.Fatalf("problem %s has no title", p.ID)
	}
	return ids, list[0].Title[0]
}

func oroProblems(t *testing.T, path string) []oroProblem {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []oroProblem
	if err := json.Unmarshal(b, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// oroModel is an upstream in OpenAI's form: the script shops as the reference
// agent's prompt asks for, searches, looks, recommends, and judges.
func oroModel(t *testing.T, problems []oroProblem) string {
	t.Helper()
	const searched, seen = "I search for what the user asks for, by the name of the goods.", "The results list candidates; I look at the details of those that may fit."
	rules := []map[string]any{{"task": "reasoning_quality", "content": `{"reasoning_quality": 0.9, "explanation": "All gates: two candidates are compared"}`}}
	say := func(p *oroProblem, last, think string, calls ...map[string]any) {
		b, err := json.Marshal(calls)
		if err != nil {
			t.Fatal(err)
		}
		r := map[string]any{"task": "<user>" + p.Query + "</user>", "content": "<think>" + think + "</think>\n<tool_call>" + string(b) + "</tool_call>"}
		if last != "" {
			r["last"] = last
		}
		rules = append(rules, r)
	}
	call := func(name string, args map[string]any) map[string]any {
		return map[string]any{"name": name, "parameters": args}
	}
	for i := range problems {
		p := &problems[i]
		ids, words := p.answer(t)
		say(p, seen, "Both were in the results; I take "+ids+" because it fits what was asked for better than the other candidates listed there.",
			call("recommend_product", map[string]any{"product_ids": ids}), call("terminate", map[string]any{"status": "success"}))
		say(p, searched, seen, call("view_product_information", map[string]any{"product_ids": ids}))
		say(p, "", searched, call("find_product", map[string]any{"q": words, "page": 1}))
	}
	b, err := json.Marshal(map[string]any{"version": 1, "fallback": "hello", "rule": rules})
	if err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse(b, "json")
	if err != nil {
		t.Fatal(err)
	}
	h := scripted.Handler(script)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err == nil { // it knows one model only: itself
			body["model"] = scripted.Name
			b, _ := json.Marshal(body)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(b)), int64(len(b))
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL + "/v1"
}

// oroNames answers for the machines that ORO's programs know by name: the proxy of
// its compose file, and the provider, which is the server at addr under that name.
func oroNames(t *testing.T, dir, addr, search string) (proxy, ca string) {
	t.Helper()
	server, err := url.Parse("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	shop, err := url.Parse(search)
	if err != nil {
		t.Fatal(err)
	}
	to := func(at *url.URL, strip, add string) http.Handler {
		return &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Path = add + strings.TrimPrefix(p.In.URL.Path, strip)
			p.SetURL(at)
			p.Out.Host = at.Host
		}}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a machine's own"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"llm.chutes.ai", "api.chutes.ai"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	provider := httptest.NewUnstartedServer(to(server, "", ""))
	provider.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	provider.StartTLS()
	t.Cleanup(provider.Close)

	inside := http.NewServeMux() // what docker/proxy opens
	inside.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "healthy\n") })
	inside.Handle("/search/", to(shop, "/search", ""))
	inside.HandleFunc("/search/get_product_raw", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	inside.Handle("/inference/", to(server, "/inference", "/v1"))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			if r.URL.Hostname() != "proxy" {
				http.Error(w, "no such machine: "+r.URL.Host, http.StatusBadGateway)
				return
			}
			inside.ServeHTTP(w, r)
			return
		}
		if !strings.HasSuffix(r.URL.Hostname(), ".chutes.ai") {
			http.Error(w, "no such machine: "+r.URL.Host, http.StatusBadGateway)
			return
		}
		up, err := net.Dial("tcp", provider.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		down, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			up.Close()
			return
		}
		_, _ = io.WriteString(down, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(up, down); up.Close() }()
		_, _ = io.Copy(down, up)
		down.Close()
	}))
	t.Cleanup(srv.Close)
	return srv.URL, ca
}
