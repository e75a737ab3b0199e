package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/store/sqlite"
	"github.com/agon-arena/agon/gateway/provider"
	"github.com/agon-arena/agon/gateway/provider/openai"
)

// faultDB, if set, makes the test binary the victim of TestKillGateway: a
// gateway over the store at this path, with callers that say what they got.
const faultDB = "AGON_FAULT_DB"

func TestMain(m *testing.M) {
	if path := os.Getenv(faultDB); path != "" {
		if err := victim(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// victim serves until it is killed, and prints a line for each reply that a
// caller has read to its end: run, receipts that it must have.
func victim(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	key, err := LoadKey(path + ".key")
	if err != nil {
		return err
	}
	books, err := NewBooks(ctx, BooksConfig{Journal: s, Key: key})
	if err != nil {
		return err
	}
	// The dummy bills at random, within and beyond what was reserved.
	rnd := func() int64 { return rand.Int64N(400) }
	up := http.NewServeMux()
	up.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		u := fmt.Sprintf(`"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, rnd(), rnd())
		if strings.Contains(string(b), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunk("hi")+finishChunk+"data: {\"choices\":[],"+u+"}\n\n"+doneChunk)
			return
		}
		says(`{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}],`+u+`}`)(w, r)
	})
	srv := &http.Server{Handler: up, ReadHeaderTimeout: time.Minute}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = srv.Serve(ln) }() // ends with the process
	u, err := openai.New(openai.Config{BaseURL: "http://" + ln.Addr().String() + "/v1", Models: []string{"m"}})
	if err != nil {
		return err
	}
	prices, err := LoadPrices()
	if err != nil {
		return err
	}
	if err := prices.Set("m", Price{In: 1_000_000, Out: 2_000_000, MaxOutput: 300, Version: "test"}); err != nil {
		return err
	}
	g, err := New(Config{Upstreams: []provider.Upstream{u}, Prices: prices, Books: books})
	if err != nil {
		return err
	}
	if err := g.Start(ctx); err != nil {
		return err
	}
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...) // one write: whole or not at all
	}
	life := fmt.Sprintf("%d", time.Now().UnixNano())
	say("up")
	for i := 0; ; i++ {
		p := Policy{
			Run: fmt.Sprintf("r-%s-%d", life, i), Attempt: 1, Models: []string{"m"}, Dialects: []string{DialectOpenAI},
			Budget: agon.Budget{Micros: 9000, Calls: 60},
		}
		ses, err := g.Open(ctx, p, nil)
		if err != nil {
			return err
		}
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for range 4 {
					body := hello
					if w%2 == 0 {
						body = helloStream
					}
					req, err := http.NewRequestWithContext(ctx, "POST", ses.BaseURL()+chatPath, strings.NewReader(body))
					if err != nil {
						return
					}
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set(TokenHeader, ses.Header()[TokenHeader])
					resp, err := http.DefaultClient.Do(req)
					if err != nil {
						return
					}
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					if err == nil && resp.StatusCode == 200 {
						say("ok %s", p.Run)
					}
				}
			})
		}
		wg.Wait()
		if err := ses.Close(); err != nil {
			return err
		}
		say("closed %s %d", p.Run, ses.Spent())
	}
}

// The gateway is killed at random moments, over and over on the same books.
// After each: no reply that a caller has read is without a receipt, no account
// is over its budget, nothing stays held, every chain and signature holds.
// AGON_FAULT_ROUNDS sets how often (make faults: 200).
func TestKillGateway(t *testing.T) {
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv("AGON_FAULT_ROUNDS")); err == nil {
		rounds = n
	}
	path := filepath.Join(t.TempDir(), "gateway.db")
	acked, closed, receipts, held := 0, 0, 0, 0
	for round := range rounds {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), faultDB+"="+path)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ok := map[string]int{}
		spent := map[string]int64{}
		in := bufio.NewScanner(out)
		// The moment is random: in odd rounds after it is up, in even ones after
		// the first reply, which a busy machine may give late.
		var kill *time.Timer
		start := []string{"ok", "up"}[round%2]
		for in.Scan() {
			f := strings.Fields(in.Text())
			if f[0] == start && kill == nil {
				kill = time.AfterFunc(time.Duration(rand.Int64N(int64(250*time.Millisecond))), func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
			}
			switch {
			case f[0] == "ok" && len(f) == 2:
				ok[f[1]]++
				acked++
			case f[0] == "closed" && len(f) == 3:
				closed++
				spent[f[1]], _ = strconv.ParseInt(f[2], 10, 64)
			}
		}
		_ = cmd.Wait() // killed
		if kill == nil {
			t.Fatalf("the victim ended before it said %q", start)
		}
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenBooks(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range open {
			for _, a := range r.Accounts {
				held += len(a.Holds)
			}
		}
		if _, err := NewBooks(t.Context(), BooksConfig{Journal: s}); err != nil {
			t.Fatal(err)
		}
		if open, err = s.OpenBooks(t.Context()); err != nil || len(open) > 0 {
			t.Errorf("round %d: after recovery %+v are open, %v", round, open, err)
		}
		sound(t, s)
		for run, n := range ok {
			list, err := s.GatewayReceipts(t.Context(), run, 1, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			receipts += len(list)
			if len(list) < n {
				t.Errorf("round %d: %d replies were read, %d receipts are there", round, n, len(list))
			}
			c := VerifyChain(list, nil)
			if len(c.Problems) > 0 {
				t.Errorf("round %d: %+v", round, c.Problems[0])
			}
			if want, ended := spent[run]; ended && int64(c.Cost) != want {
				t.Errorf("round %d: %s spent %d, receipts say %d", round, run, want, c.Cost)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if acked == 0 {
		t.Error("no call was made: the test proves nothing")
	}
	t.Logf("%d kills: %d replies read, %d receipts, %d runs ended, %d reservations released", rounds, acked, receipts, closed, held)
}
