package gateway

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// BenchmarkLatency compares a call with and without the gateway, one caller,
// 1 KB JSON: the difference of the medians is what the gateway adds. One conversation
// with a tool, in chat and in each other form, says what that form costs beyond chat, before an upstream that speaks chat.
func BenchmarkLatency(b *testing.B) {
	answer := strings.Replace(answerJSON, "hi <b>", strings.Repeat("word ", 180), 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		says(answer)(w, r)
	}))
	defer srv.Close()
	u, err := openai.New(openai.Config{BaseURL: srv.URL, Models: []string{"m"}})
	if err != nil {
		b.Fatal(err)
	}
	g := start(b, Config{Upstreams: []provider.Upstream{u}, KeepBytes: 1})
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1 << 60, Calls: 1 << 60}
	p.Dialects = []string{DialectOpenAI, DialectAnthropic, DialectResponses, DialectGoogle}
	for _, c := range []struct {
		name, url, path, body string
	}{
		{"direct", srv.URL + "/chat/completions", "", hello},
		{"gateway", "", chatPath, hello},
		{"chat", "", chatPath, messagesCase.chat},
		{"messages", "", messagesPath, messagesCase.ask},
		{"responses", "", responsesPath, responsesCase.ask},
		{"google", "", googleCase.path, googleCase.ask},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, g, p, nil)
			body := []byte(strings.Replace(c.body, `"hello"`, `"`+strings.Repeat("word ", 180)+`"`, 1))
			url := c.url
			if url == "" {
				url = s.BaseURL() + c.path
			}
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				req, _ := http.NewRequestWithContext(b.Context(), "POST", url, bytes.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set(TokenHeader, s.token)
				at := time.Now()
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				took = append(took, time.Since(at))
				if resp.StatusCode != 200 {
					b.Fatal(resp.Status)
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

// BenchmarkReserve is one reserve and settle in memory.
func BenchmarkReserve(b *testing.B) {
	books, err := NewBooks(b.Context(), BooksConfig{})
	if err != nil {
		b.Fatal(err)
	}
	a, err := books.open(b.Context(), "s", 1, "s", agon.Budget{Micros: 1 << 60, Calls: 1 << 60})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := a.reserve("c", Amount{100, 1, 100}); err != nil {
			b.Fatal(err)
		}
		if _, err := a.settle(b.Context(), "c", Amount{50, 1, 50}, &agon.Receipt{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDurable is the throughput of 64 callers over durable books.
func BenchmarkDurable(b *testing.B) {
	answer := strings.Replace(answerJSON, "hi <b>", strings.Repeat("word ", 180), 1)
	g := start(b, Config{
		Upstreams: []provider.Upstream{instant(answer)}, KeepBytes: 1, Parallel: 64,
		Books: durable(b, openStore(b, filepath.Join(b.TempDir(), "b.db"))),
	})
	p := policy("m")
	p.Budget = agon.Budget{Micros: 1 << 60, Calls: 1 << 60}
	s := open(b, g, p, nil)
	body := strings.Replace(hello, "hello", strings.Repeat("word ", 180), 1)
	b.SetParallelism(64 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r := httptest.NewRequest("POST", chatPath, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set(TokenHeader, s.token)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			if w.Code != 200 {
				b.Error(w.Code, w.Body.String())
				return
			}
		}
	})
}

// instant is an upstream without a network.
type instant string

func (i instant) Name() string     { return "instant" }
func (i instant) Models() []string { return []string{"m"} }
func (i instant) Do(context.Context, provider.Request) (*provider.Reply, error) {
	return &provider.Reply{Status: 200, ContentType: "application/json", Body: io.NopCloser(strings.NewReader(string(i)))}, nil
}
