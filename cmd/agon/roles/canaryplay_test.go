package roles_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	"github.com/agon-arena/agon/ui/webhook"
)

// echo is a model that repeats what it is told, in the form that judges want.
func echo(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
		if err != nil {
			http.Error(w, "gone", http.StatusBadRequest)
			return
		}
		var in struct {
			Messages []struct {
				Role    string
				Content any
			}
			Tools []any
		}
		_ = json.Unmarshal(body, &in) // embeddings and the like have none
		words := strings.Join(canariesIn(body), " ")
		system := ""
		tooled := false
		for _, m := range in.Messages {
			if m.Role == "system" {
				system += fmt.Sprint(m.Content)
			}
			tooled = tooled || m.Role == "tool"
		}
		message := map[string]any{"role": "assistant", "content": "You said: " + words + " and " + string(body[:min(len(body), 2000)])}
		say := func(v any) {
			b, _ := json.Marshal(v) // strings and numbers
			message["content"] = string(b)
		}
		switch {
		case strings.Contains(system, "support_ok"):
			say(map[string]any{"rationale": "It says " + words, "support_ok": true})
		case strings.Contains(system, "reasoning_quality"):
			say(map[string]any{"reasoning_quality": 0.7, "explanation": "Gate 3: " + words})
		case strings.Contains(system, "integrity_passed"):
			say(map[string]any{"integrity_passed": true, "flags": []any{}, "summary": words})
		case strings.Contains(system, "criteria_results"):
			var list []any
			for _, m := range regexp.MustCompile(`\\"id\\":\s*\\"([a-z_]+)\\"`).FindAllSubmatch(body, -1) {
				list = append(list, map[string]any{"id": string(m[1]), "verdict": "PASS", "grounded": true, "justification": words})
			}
			say(map[string]any{"criteria_results": append([]any{}, list...)})
		case len(in.Tools) > 0 && !tooled: // a first turn: it looks at what there is, and names what it read
			args, _ := json.Marshal(map[string]string{"command": "himalaya envelope list"})
			more, _ := json.Marshal(map[string]string{"command": "cat " + words})
			message["content"] = nil
			message["tool_calls"] = []any{
				map[string]any{"id": "a", "type": "function", "function": map[string]any{"name": "exec", "arguments": string(args)}},
				map[string]any{"id": "b", "type": "function", "function": map[string]any{"name": "exec", "arguments": string(more)}},
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "x", "object": "chat.completion", "created": 1, "model": "openai/gpt-oss-20b",
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": "stop"}},
			"usage":   map[string]any{"prompt_tokens": len(body)/4 + 1, "completion_tokens": 200, "total_tokens": len(body)/4 + 201},
		})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// walk is a server whose arenas have been played, and how to read it.
type walk struct {
	t        *testing.T
	url      string
	audience string
	dir      string
	words    map[string]string // canary: its task and where it stands there
	open     map[string]bool   // tasks that were hidden and are public by now
	taskOf   map[agon.Digest]string
	few      bool          // fewer readers: it is read more than once
	skew     *atomic.Int64 // ns that the platform's clock is ahead
	parties  map[string]*kit.Party
	netuids  map[string]uint16 // by kind
	miners   map[string]*auth.Key
	digests  map[string][]agon.Digest // of hidden trees and their files, by kind
	values   map[string][]string
	kindOf   map[string]string // of the ids of arenas, submissions and runs
	protocol map[string]string // kind of a foreign path
	log      *safeBuffer
	live     *safeBuffer // what /live said
	webhooks *safeBuffer // what a webhook received
	browsers map[string]*http.Client
}

type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *safeBuffer) Bytes() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.b.Bytes())
}

func (w *walk) client(k auth.Signer) *client.Client {
	w.t.Helper()
	c, err := client.New(w.url, k)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// listen keeps what the page of changes is told while all is played.
func (w *walk) listen() {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+"/live", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.t.Fatalf("/live: %v %v", resp, err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	go func() { _, _ = io.Copy(w.live, resp.Body) }() // until the test ends
}

// hook sends every decision and deed to the walk, as any operator may have it.
// It returns a function that waits until all decisions have come.
func (w *walk) hook(op *client.Client) (all func(decisions int)) {
	w.t.Helper()
	decided := make(chan struct{}, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(io.LimitReader(r.Body, 8<<20))
		if err != nil {
			http.Error(rw, "gone", http.StatusBadRequest)
			return
		}
		_, _ = w.webhooks.Write(append(b, '\n'))
		if bytes.Contains(b, []byte(webhook.TypeDecided)) {
			select {
			case decided <- struct{}{}:
			default:
			}
		}
	}))
	w.t.Cleanup(s.Close)
	if _, err := op.AddWebhook(w.t.Context(), client.WebhookRequest{URL: s.URL}); err != nil {
		w.t.Fatal(err)
	}
	return func(decisions int) {
		for range decisions {
			select {
			case <-decided:
			case <-w.t.Context().Done():
				w.t.Fatal("the webhook did not hear of all decisions in time")
			}
		}
	}
}

// play opens an arena of each kind, enters the smugglers and waits until all is decided.
func play(t *testing.T, list []smuggler) *walk {
	t.Helper()
	w := &walk{
		t: t, dir: t.TempDir(), words: map[string]string{}, open: map[string]bool{}, taskOf: map[agon.Digest]string{}, skew: &atomic.Int64{}, parties: map[string]*kit.Party{}, netuids: map[string]uint16{}, miners: map[string]*auth.Key{},
		digests: map[string][]agon.Digest{}, values: map[string][]string{}, kindOf: map[string]string{}, protocol: map[string]string{}, log: &safeBuffer{}, live: &safeBuffer{}, webhooks: &safeBuffer{}, browsers: map[string]*http.Client{},
	}
	kits := kinds.All()
	o := kittest.Options(filepath.Join(w.dir, "data"), kits)
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(w.log, os.Stderr), &slog.HandlerOptions{Level: slog.LevelWarn}))
	o.Now = func() time.Time { return time.Now().Add(time.Duration(w.skew.Load())) }
	model := echo(t)
	getenv := o.Getenv
	o.Getenv = func(k string) string {
		switch k {
		case "AGON_LLM_BASE_URL":
			return model
		case "AGON_LLM_API_KEY":
			return "sk-walk-9f27ab31"
		case "AGON_LLM_MODEL":
			return "openai/gpt-oss-20b"
		case "AGON_WEBHOOK_PRIVATE": // the walk's own is on loopback
			return "1"
		}
		return getenv(k)
	}
	for i, s := range list {
		n := 0
		sets := map[bool]string{}
		shipped, err := o.ShippedSet(s.kind, s.set)
		if err != nil {
			t.Fatal(err)
		}
		for _, hidden := range []bool{false, true} {
			name := map[bool]string{false: "open", true: "kept"}[hidden]
			if hidden && len(s.open) > 0 { // the one task of a contest has no secret name
				name = fmt.Sprintf("zqcanary%s000", s.kind)
				w.words[name] = stockName
			}
			sets[hidden] = filepath.Join(w.dir, s.kind, name)
			for _, key := range map[bool][]string{false: s.open, true: s.hidden}[hidden] {
				at := slices.IndexFunc(shipped, func(x *task.Task) bool { return strings.HasSuffix(x.Key, "/"+key) })
				if at < 0 {
					t.Fatalf("%s has no task %s", s.set, key)
				}
				dir := filepath.Join(sets[hidden], key)
				if err := task.Materialise(shipped[at], dir); err != nil {
					t.Fatal(err)
				}
				if hidden {
					s.plant(&field{t: t, kind: s.kind, n: &n, all: w.words, dir: dir})
				}
			}
			if hidden {
				planted, _, err := kit.LoadSet(o, s.kind, sets[true])
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range planted {
					w.digests[s.kind] = append(w.digests[s.kind], x.Digest)
					w.taskOf[x.Digest] = filepath.Base(x.Key)
				}
				err = filepath.WalkDir(sets[true], func(p string, d os.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					b, err := os.ReadFile(p)
					if len(canariesIn(b)) > 0 {
						w.digests[s.kind] = append(w.digests[s.kind], agon.Sum(b))
						rel, _ := filepath.Rel(sets[true], p) // both are absolute
						w.taskOf[agon.Sum(b)], _, _ = strings.Cut(filepath.ToSlash(rel), "/")
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		w.netuids[s.kind] = uint16(20 + i)
		text := fmt.Sprintf("id = \"walk-%s\"\nkind = %q\ntitle = \"walk\"\nlicence = \"MIT\"\nnetuid = %d\n", s.kind, s.kind, w.netuids[s.kind])
		more := ""
		switch {
		case s.supply:
			text += fmt.Sprintf("sets = [%q]\n", sets[false])
			more = fmt.Sprintf("[period]\nhours = 24\n[supply]\nfrom = \"directory\"\npath = %q\ntasks = 1\n", sets[true])
		case len(s.open) > 0:
			text += fmt.Sprintf("sets = [%q]\nhidden = [%q]\n", sets[false], sets[true])
		default:
			text += fmt.Sprintf("sets = [%q]\n", sets[true])
		}
		path := filepath.Join(w.dir, s.kind+".toml")
		if err := os.WriteFile(path, []byte(text+s.toml+more), 0o600); err != nil {
			t.Fatal(err)
		}
		o.Arenas = append(o.Arenas, path)
		w.values["arena"] = append(w.values["arena"], "walk-"+s.kind)
		w.kindOf["walk-"+s.kind] = s.kind
		w.values["netuid"] = append(w.values["netuid"], fmt.Sprint(w.netuids[s.kind]))
	}
	ready, decided := make(chan string, 1), make(chan struct{}, 100)
	o.Ready = func(url string) { ready <- url }
	o.Decided = func(*client.Overview) {
		select {
		case decided <- struct{}{}:
		default:
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := roles.Up(ctx, o)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("up: %v", err)
		}
	})
	select {
	case w.url = <-ready:
	case err := <-ended:
		ended <- nil
		t.Fatalf("up: %v", err)
	}
	info, err := w.client(nil).Server(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.audience = info.Audience
	w.listen()
	for _, name := range []string{"operator", "validator"} {
		if w.parties[name], err = kit.LoadParty(filepath.Join(o.Data, "wallets"), name); err != nil {
			t.Fatal(err)
		}
	}
	op := w.client(w.parties["operator"].Hotkey)
	heard := w.hook(op)
	register := func(name, kind string, validator bool) *auth.Key {
		p, err := kit.LoadParty(filepath.Join(o.Data, "wallets"), name)
		if err != nil {
			t.Fatal(err)
		}
		w.parties[name] = p
		if err := op.Register(t.Context(), w.netuids[kind], client.RegisterRequest{Hotkey: p.Hotkey.SS58(), Coldkey: p.Coldkey, Validator: validator}); err != nil {
			t.Fatal(err)
		}
		return p.Hotkey
	}
	for _, s := range list {
		k := register("miner-"+s.kind, s.kind, false)
		w.miners[s.kind] = k
		register("rival-"+s.kind, s.kind, false)
		register("elsewhere-"+s.kind, s.kind, true)
		if s.enter != nil {
			s.enter(t, w, k)
		} else if _, err := w.client(k).Submit(t.Context(), "walk-"+s.kind, client.SubmitRequest{Name: "smuggler", Licence: "MIT", Files: s.agent(t)}); err != nil {
			t.Fatalf("%s: %v", s.kind, err)
		}
		if s.after != nil {
			s.after(t, w)
		}
	}
	for {
		select {
		case <-decided:
		case err := <-ended:
			ended <- nil
			t.Fatalf("up: %v", err)
		case <-t.Context().Done():
			t.Fatal("not decided in time")
		}
		page, err := op.Submissions(t.Context(), "", "", client.ListOptions{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		waits := ""
		for _, x := range page.Items {
			if x.State == agon.SubmissionQueued || x.State == agon.SubmissionPlaying {
				waits += " " + x.Arena
			}
		}
		if waits == "" && len(page.Items) == len(list) {
			break
		}
		t.Logf("waits for%s", waits)
	}
	heard(len(list))
	return w
}
