package roles_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/cmd/agon/roles"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/claim/signin"
	codewire "github.com/agon-arena/agon/kinds/coding/wire"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/kinds/kit/kittest"
	packwire "github.com/agon-arena/agon/kinds/pack/wire"
	"github.com/agon-arena/agon/kinds/research/miner"
	shopwire "github.com/agon-arena/agon/kinds/shopping/wire"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// The canary walk. Every field of a hidden task holds a word of its own. In each
// kind an agent plays that puts all it sees into everything that it may choose:
// output, errors, prompts, paths, answers, citations. Then every route, page,
// stream, tool and command is read as each role, and only who may read hidden
// tasks finds a word.

// canary is a word that stands nowhere but in one field of a hidden task.
var canary = regexp.MustCompile(`(?i)^zqcanary[a-z]+[0-9]{3}`)

// canariesIn returns the words in b: as they are, and in base64. It is quick where
// there are none: the walk reads hundreds of megabytes under the race detector.
func canariesIn(b []byte) []string {
	found := map[string]bool{}
	low := bytes.ToLower(b)
	for rest := low; ; {
		i := bytes.Index(rest, []byte("zqcanary"))
		if i < 0 {
			break
		}
		rest = rest[i:]
		if w := canary.Find(rest[:min(len(rest), 64)]); w != nil {
			found[string(w)] = true
		}
		rest = rest[len("zqcanary"):]
	}
	// Base64 has the word in one of three ways, by where it begins in the text.
	for _, form := range canary64 {
		for rest := b; ; {
			i := bytes.Index(rest, form.text)
			if i < 0 {
				break
			}
			end := i + min(len(rest)-i, 64)
			part := rest[i:end]
			for j, c := range part {
				if !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_", rune(c)) {
					part = part[:j]
					break
				}
			}
			part = bytes.Map(func(r rune) rune {
				switch r {
				case '-':
					return '+'
				case '_':
					return '/'
				}
				return r
			}, part)
			if len(part)%4 == 1 {
				part = part[:len(part)-1]
			}
			out, err := base64.RawStdEncoding.DecodeString(string(part))
			if err == nil {
				// What stands before the whole groups of four letters is the word's beginning.
				if w := canary.Find(append([]byte("zqcanary")[:form.lost:form.lost], out...)); w != nil {
					found[strings.ToLower(string(w))] = true
				}
			}
			rest = rest[i+len(form.text):]
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// form64 is how base64 shows the word where it begins lost bytes before a group of
// three: the letters of the whole groups in it.
type form64 struct {
	lost int
	text []byte
}

var canary64 = func() (out []form64) {
	for _, word := range []string{"zqcanary", "ZQCANARY", "Zqcanary"} {
		for lost := range 3 {
			whole := word[lost:]
			whole = whole[:len(whole)/3*3]
			out = append(out, form64{lost, []byte(base64.StdEncoding.EncodeToString([]byte(whole)))})
		}
	}
	return out
}()

// TestCanaryIsFound: the walk's eye sees a word as it stands, in any case, and in
// both alphabets of base64 wherever it begins.
func TestCanaryIsFound(t *testing.T) {
	const word = "zqcanaryclaim017"
	var texts []string
	for _, w := range []string{word, strings.ToUpper(word)} {
		texts = append(texts, "x "+w+" y", "a/"+w)
		for n := range 5 {
			text := strings.Repeat("\xff", n) + w + " and ??>>"
			texts = append(texts, "data: "+base64.StdEncoding.EncodeToString([]byte(text))+"\n", base64.URLEncoding.EncodeToString([]byte(text)), `"`+base64.RawURLEncoding.EncodeToString([]byte(text[:n+len(word)]))+`"`)
		}
	}
	for _, text := range texts {
		if got := canariesIn([]byte(text)); !slices.Equal(got, []string{word}) {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, text := range []string{"", "zqcanary", "zqcanaryclaim01", base64.StdEncoding.EncodeToString([]byte("zqcanary"))} {
		if got := canariesIn([]byte(text)); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// field plants canaries in one task of a kind.
type field struct {
	t    *testing.T
	kind string
	n    *int
	all  map[string]string // word: where it stands
	dir  string
}

func (f *field) word(at string) string {
	*f.n++
	w := fmt.Sprintf("zqcanary%s%03d", f.kind, *f.n)
	f.all[w] = at
	return w
}

// edit changes one file of the task.
func (f *field) edit(name string, change func(string) string) {
	f.t.Helper()
	path := filepath.Join(f.dir, filepath.FromSlash(name))
	b, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	now := change(string(b))
	if now == string(b) {
		f.t.Fatalf("%s: nothing was planted", name)
	}
	if err := os.WriteFile(path, []byte(now), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// end puts a word at the end of a file.
func (f *field) end(name, before string) {
	f.t.Helper()
	f.edit(name, func(s string) string { return s + before + f.word(name) + "\n" })
}

// in puts a word behind the first occurrence of a text.
func (f *field) in(name string, texts ...string) {
	f.t.Helper()
	for _, x := range texts {
		f.edit(name, func(s string) string { return strings.Replace(s, x, x+f.word(name+": "+x)+" ", 1) })
	}
}

func (f *field) common() {
	f.t.Helper()
	f.end("instruction.md", "\n")
	f.in("task.toml", `description = "`)
}

// smuggler is how one kind is tried.
type smuggler struct {
	kind   string
	set    string // shipped
	open   []string
	hidden []string // names in the set
	toml   string   // of the arena, besides what all have
	plant  func(f *field)
	agent  func(t *testing.T) []client.File // nil: enter does it
	enter  func(t *testing.T, w *walk, m *auth.Key)
	after  func(t *testing.T, w *walk) // what else goes on there
	// seen are the fewest words that who may read the hidden tasks must find.
	seen int
}

func pythonAgent(path, src string) func(*testing.T) []client.File {
	return func(*testing.T) []client.File { return []client.File{{Path: path, Content: []byte(src)}} }
}

const claimAgent = `import json
import sys

from agon_sdk import entrypoint, llm_chat, search_web


@entrypoint("evaluate_criterion")
async def evaluate_criterion(request: dict) -> dict:
    text = json.dumps(request)
    print(text, flush=True)
    print(text, file=sys.stderr, flush=True)
    values = sorted(o["value"] for o in request["verdict_options"])
    found = await search_web(request["claim_text"], num=3)
    said = ""
    try:
        reply = await llm_chat(model="openai/gpt-oss-20b", messages=[{"role": "user", "content": text}], temperature=0, max_output_tokens=400)
        said = reply.response.raw_text or ""
    except Exception as e:
        print(e)
    if 0 in values:
        raise ValueError(text)
    if "library" in text.lower():
        return {"verdict": text, "justification": text, text[:50]: text}
    return {"verdict": values[0], "justification": text[:1500] + said[:1500], "citations": [{"receipt_id": found.receipt_id, "result_id": r.result_id} for r in found.results[:2]]}
`

const codingAgent = `import json
import os
import re
import sys
import urllib.request

PROXY = os.getenv("AI_PROXY_URL", "http://127.0.0.1:8000")


def agent_main(input):
    text = json.dumps(input)
    for top, _, files in os.walk("/repo"):
        for name in files:
            try:
                with open(os.path.join(top, name)) as f:
                    text += "\n" + os.path.join(top, name) + "\n" + f.read()
            except (OSError, UnicodeDecodeError):
                pass
    words = sorted(set(re.findall("zqcanar" + "y[a-z]+[0-9]+", text)))
    print(text[:20000], flush=True)
    print(" ".join(words), file=sys.stderr, flush=True)
    for path in ("/v1/chat/completions", "/v1/embeddings", "/" + "/".join(words)):
        try:
            body = {"model": "openai/gpt-oss-20b", "max_tokens": 400, "input": " ".join(words), "messages": [{"role": "user", "content": text[:6000] + " ".join(words)}]}
            req = urllib.request.Request(PROXY + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            print(urllib.request.urlopen(req, timeout=30).read())
        except Exception as e:
            print(path, e)
    kind = len(text) % 3
    name = "-".join(words) or "none"
    if "merge" in text and "interval" in text:  # does not apply, and names its path
        return {"patch": "--- a/%s.py\n+++ b/%s.py\n@@ -1 +1 @@\n-%s\n+x\n" % (name, name, name)}
    if "semver" in text:
        raise RuntimeError(" ".join(words))
    return {"patch": "diff --git a/%s.py b/%s.py\nnew file mode 100644\n--- /dev/null\n+++ b/%s.py\n@@ -0,0 +1 @@\n+# %s\n" % (name, name, name, " ".join(words))}
`

const shopAgent = `import json
import re
from os import getenv

from src.agent.agent_interface import create_dialogue_step, execute_tool_call, register_tool
from src.agent.proxy_client import ProxyClient

client = ProxyClient(getenv("SANDBOX_PROXY_URL"), max_retries=1)
register_tool("find_product", lambda **args: client.get("/search/find_product", args) or [])
register_tool("recommend_product", lambda product_ids: f"Having recommended: {product_ids}.")
register_tool("terminate", lambda status="success": f"The interaction has been completed with status: {status}")


def agent_main(problem_data):
    query, text = problem_data["query"], json.dumps(problem_data)
    words = re.findall("zqcanar" + "y[a-z]+[0-9]+", text)
    print(text, flush=True)
    reply = client.post("/inference/chat/completions", {
        "model": getenv("SANDBOX_MODEL", "openai/gpt-oss-20b"), "temperature": 0, "max_tokens": 400, "messages": [{"role": "user", "content": text}],
    })
    client.get("/search/view_product_information", {"product_ids": ",".join(words) or "1"})
    done = [execute_tool_call("find_product", {"q": query, "page": 1})]
    hits = done[0]["result"] or []
    if len(words) > 0 and "voucher" in text:
        raise ValueError(text)
    ids = ",".join([h["product_id"] for h in hits[:1]] + (words if "shop" in query else []))
    steps = [create_dialogue_step("I compare what I was asked, " + text + json.dumps(reply), done, text, query, 1)]
    last = [execute_tool_call("recommend_product", {"product_ids": ids}), execute_tool_call("terminate", {"status": text})]
    steps.append(create_dialogue_step(text, last, text, query, 2))
    return steps
`

const researchPatch = `diff --git a/codec/codec.py b/codec/codec.py
index 8be5aa0e04e87761a8bf1d40c865cf6905bfa1e9..0000000000000000000000000000000000000000 100644
--- a/codec/codec.py
+++ b/codec/codec.py
@@ -4,5 +4,7 @@ import zlib
 
 if __name__ == "__main__":
     data = sys.stdin.buffer.read()
-    out = zlib.compress(data, 6) if sys.argv[1] == "compress" else zlib.decompress(data)
+    sys.stderr.write(data[-2000:].decode("latin-1"))
+    sys.stderr.flush()
+    out = zlib.compress(data, 6) if sys.argv[1] == "compress" else sys.exit(data[-2000:].decode("latin-1") + zlib.decompress(data).decode()[-1500:])
     sys.stdout.buffer.write(out)
`

func smugglers() []smuggler {
	return []smuggler{
		{
			kind: "claim", set: "demo", open: []string{"coins-dated", "wind-record"}, hidden: []string{"bridge-town-pays", "dredged-depth", "pupils-phones", "library-fines"},
			toml:  "incentive = \"winner_takes_all\"\n",
			agent: pythonAgent("agent.py", claimAgent),
			plant: func(f *field) {
				f.common()
				f.in("environment/claim.json", `"claim_text": "`, `"rubric_title": "`, `"rubric_description": "`, `"description": "`)
				f.in("tests/reference.json", `"justification": "`)
			},
			// A batch of foreign validators has the hidden claims with their references.
			after: func(t *testing.T, w *walk) {
				k := w.parties["validator"].Hotkey
				body := []byte("{}")
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+"/v1/miner-task-batches/batch", bytes.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				sig, err := k.Sign(signin.Message(http.MethodPost, req.URL.Path, body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", fmt.Sprintf("Bittensor ss58=%q,sig=%q", k.SS58(), hex.EncodeToString(sig)))
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				b, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
				if err != nil || resp.StatusCode != http.StatusOK || len(canariesIn(b)) < 8 {
					t.Fatalf("a batch of all claims: %d %.300s %v", resp.StatusCode, b, err)
				}
			},
			seen: 15,
		},
		{
			kind: "coding", set: "small", open: []string{"ring-buffer"}, hidden: []string{"interval-merge", "semver", "lru-cache"},
			toml:  "incentive = \"winner_takes_all\"\n",
			agent: pythonAgent("agent.py", codingAgent),
			plant: func(f *field) {
				f.common()
				for _, in := range []string{"environment/repo", "tests/hidden"} {
					n := 0
					err := filepath.WalkDir(filepath.Join(f.dir, in), func(p string, d os.DirEntry, err error) error {
						if err != nil || d.IsDir() || !strings.HasSuffix(p, ".py") || n == 3 {
							return err
						}
						n++
						rel, err := filepath.Rel(f.dir, p)
						f.end(filepath.ToSlash(rel), "# ")
						return err
					})
					if err != nil {
						f.t.Fatal(err)
					}
				}
				f.edit("solution/fix.patch", func(s string) string { return f.word("solution/fix.patch") + "\n" + s })
			},
			seen: 15,
		},
		{
			kind: "shopping", set: "demo", open: []string{"product-easy-01", "product-easy-03"}, hidden: []string{"product-easy-02", "voucher-easy-09", "shop-medium-08"},
			toml:  "incentive = \"race\"\nevidence = \"foreign\"\n[incentive_numbers]\nqualify = 0.0\ninitial = 0.05\n[policy]\ntools = [\"*\"]\n",
			agent: pythonAgent("agent.py", shopAgent),
			plant: func(f *field) {
				f.common()
				f.in("environment/problem.json", `"query": "`, `"title": "`)
				f.in("tests/reward.json", `"title": "`)
			},
			seen: 10,
		},
		{
			kind: "pack", set: "office", open: []string{"standup"}, hidden: []string{"morning-brief", "inbox"},
			toml: "incentive = \"winner_takes_all\"\n",
			agent: func(t *testing.T) []client.File {
				k, _ := kinds.All().Of("pack")
				list, err := k.Files("optimised")
				if err != nil {
					t.Fatal(err)
				}
				return slices.DeleteFunc(list, func(f client.File) bool { return f.Path != "pack.json" })
			},
			plant: func(f *field) {
				f.common()
				f.in("tests/scenario.yaml", `prompt: "`, `description: "`)
				for _, name := range []string{"inbox.json", "calendar.json"} {
					for _, x := range []string{`"subject": "`, `"summary": "`, `"title": "`} {
						path := filepath.Join(f.dir, "environment", "fixtures", name)
						if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), x) {
							f.in("environment/fixtures/"+name, x)
							break
						}
					}
				}
			},
			seen: 6,
		},
		{
			kind: "research", set: "compress", open: nil, hidden: []string{"compress"},
			toml: "incentive = \"winner_takes_all\"\nevidence = \"foreign\"\n",
			// All but the hidden data is public: miners clone the repository.
			plant: func(f *field) { f.end("tests/hidden/corpus.txt", "\n") },
			enter: func(t *testing.T, w *walk, k *auth.Key) {
				c := &miner.Client{URL: w.url, Key: k}
				one, err := c.Task(t.Context(), "", "compress", false)
				if err != nil {
					t.Fatal(err)
				}
				cl, _, err := c.Claim(t.Context(), one.ID, "", "carries it out")
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Submit(t.Context(), &miner.Submission{ClaimID: cl.ID, BaseRef: one.BaseSHA, Patch: researchPatch, Sidecar: miner.Sidecar{Summary: "carries it out", ClaimedMetrics: json.RawMessage(`{"bits_per_byte": 2.9}`)}}); err != nil {
					t.Fatal(err)
				}
			},
			seen: 1,
		},
	}
}

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
		case len(in.Tools) > 0 && !tooled: // a first turn: it looks at what there is, and names what it was told
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
	words    map[string]string // canary: where it stands
	parties  map[string]*kit.Party
	netuids  map[string]uint16 // by kind
	miners   map[string]*auth.Key
	digests  map[string][]agon.Digest // of hidden trees and their files, by kind
	values   map[string][]string
	kindOf   map[string]string // of the ids of arenas, submissions and runs
	protocol map[string]string // kind of a foreign path
	log      *safeBuffer
	live     *safeBuffer // what /live said
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

// play opens an arena of each kind, enters the smugglers and waits until all is decided.
func play(t *testing.T, list []smuggler) *walk {
	t.Helper()
	w := &walk{
		t: t, dir: t.TempDir(), words: map[string]string{}, parties: map[string]*kit.Party{}, netuids: map[string]uint16{}, miners: map[string]*auth.Key{},
		digests: map[string][]agon.Digest{}, values: map[string][]string{}, kindOf: map[string]string{}, protocol: map[string]string{}, log: &safeBuffer{}, live: &safeBuffer{}, browsers: map[string]*http.Client{},
	}
	kits := kinds.All()
	o := kittest.Options(filepath.Join(w.dir, "data"), kits)
	o.Log = slog.New(slog.NewTextHandler(io.MultiWriter(w.log, os.Stderr), &slog.HandlerOptions{Level: slog.LevelWarn}))
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
				w.words[name] = "the name of its set"
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
				}
				err = filepath.WalkDir(sets[true], func(p string, d os.DirEntry, err error) error {
					if err != nil || d.IsDir() {
						return err
					}
					b, err := os.ReadFile(p)
					if len(canariesIn(b)) > 0 {
						w.digests[s.kind] = append(w.digests[s.kind], agon.Sum(b))
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
		if len(s.open) > 0 {
			text += fmt.Sprintf("sets = [%q]\nhidden = [%q]\n", sets[false], sets[true])
		} else {
			text += fmt.Sprintf("sets = [%q]\n", sets[true])
		}
		path := filepath.Join(w.dir, s.kind+".toml")
		if err := os.WriteFile(path, []byte(text+s.toml), 0o600); err != nil {
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
	return w
}

// reader is who reads, and what it may find: trees of hidden tasks (a validator of
// the arena), or everything of runs on them too (who played it, the operator).
type reader struct {
	name  string
	party *kit.Party // nil: the public
	may   func(kind string) bool
	// only is the arena that it is somebody in, and reads. Elsewhere it is a stranger
	// who signs, as a rival is, who reads everything. Empty: it reads all arenas.
	only string
	// pages ends the reading of pages, and shortens that of commands, where a reader
	// may see all: there is nothing to find but that the walk sees. 0: everything.
	pages int
}

// concerns reports whether r reads a path or a command.
func (w *walk) concerns(r reader, path string) bool {
	if r.only == "" {
		return true
	}
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/?=&. ", c) }) {
		if k := w.kindOf[part]; k != "" && k != r.only {
			return false
		}
	}
	return true
}

func (w *walk) readers(list []smuggler) []reader {
	none := func(string) bool { return false }
	all := func(string) bool { return true }
	out := []reader{{name: "public", may: none}, {name: "operator", party: w.parties["operator"], may: all, pages: 120}, {name: "validator", party: w.parties["validator"], may: all, pages: 120}}
	for i, s := range list {
		out = append(out, reader{name: "miner-" + s.kind, party: w.parties["miner-"+s.kind], may: none, only: s.kind})
		if i == 0 { // more than one arena: who validates in one is a stranger in the others
			out = append(out, reader{name: "elsewhere-" + s.kind, party: w.parties["elsewhere-"+s.kind], may: func(kind string) bool { return kind == s.kind }})
			out = append(out, reader{name: "rival-" + s.kind, party: w.parties["rival-"+s.kind], may: none})
		}
	}
	return out
}

// as is the walk in a subtest, with browsers of its own.
func (w *walk) as(t *testing.T) *walk {
	c := *w
	c.t, c.browsers = t, map[string]*http.Client{}
	return &c
}

// get reads a path as somebody, a page or the API.
func (w *walk) get(r reader, path string, page bool) (int, []byte) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := http.DefaultClient
	if page {
		req.Header.Set("Accept", "text/html")
		c = w.browser(r)
	} else if r.party != nil {
		if err := auth.SignRequest(req, nil, r.party.Hotkey, w.audience, time.Now()); err != nil {
			w.t.Fatal(err)
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		w.t.Fatalf("%s as %s: %v", path, r.name, err)
	}
	if resp.StatusCode >= 500 {
		w.t.Errorf("%s as %s: %d %.300s", path, r.name, resp.StatusCode, b)
	}
	for k, v := range resp.Header { // headers are part of an answer
		b = append(b, "\n"+k+": "+strings.Join(v, " ")...)
	}
	return resp.StatusCode, b
}

// browser is signed in as r.
func (w *walk) browser(r reader) *http.Client {
	w.t.Helper()
	if c := w.browsers[r.name]; c != nil {
		return c
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.browsers[r.name] = c
	if r.party == nil {
		return c
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/web/sessions", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := auth.SignRequest(req, nil, r.party.Hotkey, w.audience, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var link struct{ Path string }
	if err := json.NewDecoder(resp.Body).Decode(&link); err != nil {
		w.t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.Path, "code=")
	in, err := c.PostForm(w.url+"/signin", url.Values{"code": {code}})
	if err != nil {
		w.t.Fatal(err)
	}
	in.Body.Close()
	if in.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("sign in as %s: %d", r.name, in.StatusCode)
	}
	return c
}

// hidden are the digests of hidden trees and of their files, of some kinds.
func (w *walk) hidden(of func(kind string) bool) []agon.Digest {
	var out []agon.Digest
	for _, kind := range slices.Sorted(maps.Keys(w.digests)) {
		if of(kind) {
			out = append(out, w.digests[kind]...)
		}
	}
	return out
}

// gather finds what fills the holes of paths: the ids of all there is.
func (w *walk) gather() {
	w.t.Helper()
	op := w.client(w.parties["operator"].Hotkey)
	ctx := w.t.Context()
	subs, err := op.Submissions(ctx, "", "", client.ListOptions{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	digests := w.hidden(func(string) bool { return true })
	for _, s := range subs.Items {
		w.values["submissions"] = append(w.values["submissions"], s.ID)
		w.kindOf[s.ID] = w.kindOf[s.Arena]
		digests = append(digests, s.Digest)
		runs, err := op.Runs(ctx, "", s.ID, "", client.ListOptions{Limit: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range runs.Items {
			w.values["runs"] = append(w.values["runs"], r.RunSpec.Run)
			w.kindOf[r.RunSpec.Run] = w.kindOf[s.Arena]
			full, err := op.Run(ctx, r.RunSpec.Run)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, at := range full.List {
				if at.Evidence != "" {
					digests = append(digests, at.Evidence)
				}
			}
		}
	}
	// What trees list, and what events name.
	any64 := regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	seen := map[string]bool{}
	for len(digests) > 0 {
		d := digests[0]
		digests = digests[1:]
		if seen[string(d)] {
			continue
		}
		seen[string(d)] = true
		b, err := op.Blob(ctx, d)
		if client.IsCode(err, "not_found") {
			continue // hashed, not stored
		}
		if err != nil {
			w.t.Fatalf("blob %s: %v", d, err)
		}
		w.values["digest"] = append(w.values["digest"], string(d))
		for _, m := range any64.FindAllString(string(b[:min(len(b), 1<<20)]), 1000) {
			digests = append(digests, agon.Digest(m))
		}
	}
	for _, p := range w.parties {
		w.values["hotkey"] = append(w.values["hotkey"], p.Hotkey.SS58())
	}
	slices.Sort(w.values["hotkey"])
}

var hole = regexp.MustCompile(`\{([a-z_]+)\}`)

// fill makes the paths of a pattern; vals returns what a hole may hold.
func fill(pattern string, vals func(before, name string) []string) []string {
	list := []string{pattern}
	for {
		at := hole.FindStringSubmatchIndex(list[0])
		if at == nil {
			return list
		}
		var next []string
		for _, l := range list {
			m := hole.FindStringSubmatchIndex(l)
			for _, v := range vals(l[:m[0]], l[m[2]:m[3]]) {
				next = append(next, l[:m[0]]+url.PathEscape(v)+l[m[1]:])
			}
		}
		if list = next; len(list) == 0 {
			return nil
		}
	}
}

// v1 are all reads of the document, with every value that fits.
func (w *walk) v1() []string {
	w.t.Helper()
	b, err := os.ReadFile("../../../docs/openapi.json")
	if err != nil {
		w.t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Required bool
				Schema   struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for at, ops := range doc.Paths {
		op, ok := ops["get"]
		if !ok {
			continue
		}
		list := fill(at, func(before, name string) []string {
			v := w.values[name]
			if name == "id" {
				v = w.values[filepath.Base(before)]
			}
			if len(v) == 0 {
				w.t.Fatalf("%s: nothing fills %s: teach the walk", at, name)
			}
			return v
		})
		for _, p := range op.Parameters {
			if p.In != "query" || !p.Required && len(p.Schema.Enum) == 0 && p.Name != "limit" && p.Name != "attempt" && p.Name != "size" {
				continue
			}
			var vals []string
			switch {
			case len(p.Schema.Enum) > 0:
				vals = p.Schema.Enum
			case p.Name == "limit":
				vals = []string{"200"}
			case p.Name == "attempt" || p.Name == "size":
				vals = []string{"1"}
			case p.Name == "id": // of the log
				vals = slices.Concat(w.values["submissions"], w.values["arena"])
				for _, r := range w.values["runs"] {
					vals = append(vals, r, r+"/1")
				}
				for _, a := range w.values["arena"] {
					vals = append(vals, a+"/0", a+"/1")
				}
			default:
				w.t.Fatalf("%s: nothing fills %s: teach the walk", at, p.Name)
			}
			var next []string
			for _, l := range list {
				if !p.Required {
					next = append(next, l)
				}
				for _, v := range vals {
					sep := "?"
					if strings.Contains(l, "?") {
						sep = "&"
					}
					next = append(next, l+sep+p.Name+"="+url.QueryEscape(v))
				}
			}
			list = next
		}
		out = append(out, list...)
	}
	slices.Sort(out)
	return out
}

// links calls f with what the attributes of a page link on this server.
func links(body []byte, f func(string)) {
	for {
		i := bytes.Index(body, []byte(`="/`))
		if i < 0 {
			return
		}
		name := body[max(0, i-24):i]
		name = name[bytes.LastIndexAny(name, " \n\t<")+1:]
		body = body[i+2:]
		end := bytes.IndexAny(body, "\"#")
		if end < 0 {
			return
		}
		switch n := string(name); {
		case n == "href", n == "src", n == "action", strings.HasPrefix(n, "data-"):
			f(html.UnescapeString(string(body[:end])))
		}
	}
}

// crawl reads every page that a page links, as r.
func (w *walk) crawl(r reader, visit func(path string, body []byte)) int {
	w.t.Helper()
	todo, seen := []string{"/", "/corpus", "/operator", "/proof"}, map[string]bool{}
	for _, a := range w.values["arena"] {
		todo = append(todo, "/arenas/"+a)
	}
	for _, x := range w.values["submissions"] {
		todo = append(todo, "/submissions/"+x)
	}
	for _, x := range w.values["runs"] {
		todo = append(todo, "/runs/"+x, "/runs/"+x+"/live")
	}
	ok := 0
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if seen[p] || !w.concerns(r, p) || p == "/live" || strings.HasPrefix(p, "/live?") || strings.HasPrefix(p, "/static/") || strings.HasPrefix(p, "/signin") || strings.HasPrefix(p, "/signout") {
			continue
		}
		seen[p] = true
		status, body := w.get(r, p, true)
		if status == http.StatusOK {
			ok++
		}
		visit(p, body)
		if len(seen) == r.pages {
			break
		}
		links(body, func(q string) {
			if !seen[q] {
				todo = append(todo, q)
			}
		})
		if len(seen) > 3000 {
			w.t.Fatalf("%s: the pages have no end", r.name)
		}
	}
	return ok
}

// foreign reads all that the kinds' own protocols have, unsigned, and returns what
// is worth reading again by somebody.
func (w *walk) foreign(list []smuggler, visit func(path string, body []byte)) []string {
	w.t.Helper()
	played := func(kind string) bool {
		return slices.ContainsFunc(list, func(s smuggler) bool { return s.kind == kind })
	}
	var patterns []string
	of := map[string]string{} // kind of a pattern
	add := func(kind string, list ...string) {
		for _, p := range list {
			patterns, of[p] = append(patterns, p), kind
		}
	}
	if played("pack") {
		for _, r := range packwire.Routes() {
			add("pack", r.Pattern)
		}
	}
	if played("coding") {
		add("coding", codewire.Routes()...)
	}
	if played("shopping") {
		for _, r := range shopwire.Routes() {
			add("shopping", r.Pattern)
		}
	}
	if played("claim") {
		for _, file := range []string{"platform.go", "search.go"} {
			b, err := os.ReadFile("../../../kinds/claim/wire/" + file)
			if err != nil && file == "platform.go" {
				w.t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"(GET /[^"]+)"`).FindAllSubmatch(b, -1) {
				add("claim", string(m[1]))
			}
		}
	}
	if played("research") {
		_, b := w.get(reader{name: "public"}, "/api/v1/openapi.json", false)
		body, _, _ := bytes.Cut(b, []byte("\n}\n"))
		var doc struct{ Paths map[string]map[string]any }
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&doc); err != nil || len(doc.Paths) < 20 {
			w.t.Fatalf("the coordinator's document: %v, %d paths", err, len(doc.Paths))
		}
		for at, ops := range doc.Paths {
			if ops["get"] != nil {
				add("research", "GET "+at)
			}
		}
	}
	slices.Sort(patterns)
	// Holes take what shorter paths answered with, besides what is known.
	ids := slices.Concat(w.values["submissions"], w.values["runs"], w.values["hotkey"], []string{"compress", "current"})
	for _, d := range w.hidden(func(string) bool { return true }) {
		ids = append(ids, d.Hex())
	}
	var out []string
	slices.SortStableFunc(patterns, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	for _, p := range patterns {
		path, ok := strings.CutPrefix(p, "GET ")
		if !ok {
			continue
		}
		first := ids
		n := 0
		paths := fill(path, func(before, name string) []string {
			n++
			if strings.Count(path, "{") > 1 && n > 1 { // not every pair: ids that belong together come from one answer
				return ids[:min(len(ids), 60)]
			}
			return first[:min(len(first), 200)]
		})
		for _, x := range paths[:min(len(paths), 2500)] {
			status, b := w.get(reader{name: "public"}, x, false)
			visit(x, b)
			if status == http.StatusOK || status == http.StatusUnauthorized || status == http.StatusForbidden {
				out = append(out, x)
				w.protocol[x] = of[p]
			}
			if status == http.StatusOK {
				identifiers(b, func(id string) {
					if !slices.Contains(ids, id) {
						ids = append(ids, id)
					}
				})
			}
		}
	}
	return out
}

var identifier = regexp.MustCompile(`^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-z]{26}|[0-9a-f]{64})$`)

// identifiers calls f with the strings in b that look like an id or a digest.
func identifiers(b []byte, f func(string)) {
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return
		}
		b = b[i+1:]
		if i = bytes.IndexByte(b, '"'); (i == 26 || i == 36 || i == 64) && identifier.Match(b[:i]) {
			f(string(b[:i]))
		}
	}
}

// tools calls every tool of MCP with every value, agents' text included.
func (w *walk) tools(visit func(path string, body []byte)) {
	w.t.Helper()
	ctx := w.t.Context()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "walk", Version: "1"}, nil).Connect(ctx, &sdk.StreamableClientTransport{Endpoint: w.url + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		b, err := json.Marshal(tool.InputSchema)
		if err != nil {
			w.t.Fatal(err)
		}
		var in struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(b, &in); err != nil {
			w.t.Fatal(err)
		}
		calls := []map[string]any{{}}
		for _, name := range in.Required {
			vals := map[string][]string{"arena": w.values["arena"], "submission": w.values["submissions"], "run": w.values["runs"], "id": w.values["submissions"]}[name]
			if name == "id" && (strings.Contains(tool.Name, "run") || strings.Contains(tool.Name, "receipts")) {
				vals = w.values["runs"]
			}
			if len(vals) == 0 {
				w.t.Fatalf("tool %s: nothing fills %s: teach the walk", tool.Name, name)
			}
			var next []map[string]any
			for _, c := range calls {
				for _, v := range vals {
					more := maps.Clone(c)
					more[name] = v
					next = append(next, more)
				}
			}
			calls = next
		}
		for _, c := range calls {
			if _, ok := in.Properties["include_agent_text"]; ok {
				c["include_agent_text"] = true
			}
			r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool.Name, Arguments: c})
			if err != nil {
				w.t.Fatal(err)
			}
			out, err := json.Marshal(r)
			if err != nil {
				w.t.Fatal(err)
			}
			visit(fmt.Sprintf("mcp %s %v", tool.Name, c), out)
		}
	}
}

// commands runs what reads a server on the command line, as r.
func (w *walk) commands(r reader, visit func(line string, body []byte)) {
	w.t.Helper()
	var lines [][]string
	add := func(args ...string) {
		if w.concerns(r, strings.Join(args, " ")) {
			lines = append(lines, args)
		}
	}
	for _, list := range []string{"arena list", "submission list", "run list", "operator log", "validator standing", "ledger view --netuid 20", "log checkpoint", "log check"} {
		add(strings.Fields(list)...)
	}
	for _, a := range w.values["arena"] {
		add("arena", "view", a)
		add("board", a)
		add("run", "list", "--arena", a)
	}
	into := filepath.Join(w.dir, "out-"+r.name)
	n := 0
	out := func(name string) string {
		n++
		return filepath.Join(into, fmt.Sprint(n, name))
	}
	for _, x := range w.values["submissions"] {
		add("submission", "view", x)
		add("submission", "download", x, "--dir", out("files"))
		add("export", x, "--bundle", out("bundle.json"))
		add("export", x, "--in-toto", out("toto.json"))
		add("verify", x, "--no-judge")
		add("log", "inclusion", x)
	}
	for _, x := range w.values["runs"] {
		add("run", "view", x)
		add("run", "logs", x)
		add("run", "trace", x)
		add("run", "trace", x, "--format", "atif")
		add("run", "watch", x)
		add("export", x, "--bundle", out("bundle.json"))
		add("verify", x, "--no-judge")
		add("log", "inclusion", x+"/1")
	}
	add("corpus", "build", "--out", out("corpus"))
	if err := os.MkdirAll(into, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if r.pages > 0 {
		lines = lines[:min(len(lines), 60)]
	}
	kits := kinds.All()
	bad, forms := map[string]bool{}, []string{"json"}
	if r.party == nil {
		forms = append(forms, "table")
	}
	for _, args := range lines {
		for _, form := range forms {
			s, out, errOut := iostreams.Test("")
			home := filepath.Join(w.dir, "home-"+r.name)
			if err := os.MkdirAll(home, 0o700); err != nil {
				w.t.Fatal(err)
			}
			a := &cli.App{
				IO: s, Now: time.Now, Services: app.Services(kits), Extras: kits.Commands(),
				Env: config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home},
			}
			full := append(slices.Clone(args), "--url", w.url, "-o", form)
			if r.party != nil {
				full = append(full, "--wallet.path", filepath.Join(w.dir, "data", "wallets"), "--wallet.name", r.name)
			}
			code := a.Main(w.t.Context(), full)
			if code == cli.CodeUsage {
				bad[strings.Join(full, " ")+": "+errOut.String()] = true
			}
			visit("agon "+strings.Join(args, " "), []byte(out.String()+errOut.String()))
		}
	}
	for b := range bad {
		w.t.Errorf("a command of the walk is wrong: %s", b)
	}
	err := filepath.WalkDir(into, func(p string, d os.DirEntry, err error) error { // what they wrote
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		visit("file "+strings.TrimPrefix(p, into), b)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestCanaryWalk plays every kind by agents that carry out what they see, and
// reads everything as everybody. AGON_WALK=KIND walks one kind.
func TestCanaryWalk(t *testing.T) {
	list := smugglers()
	if only := os.Getenv("AGON_WALK"); only != "" {
		list = slices.DeleteFunc(list, func(s smuggler) bool { return s.kind != only })
	}
	w := play(t, list)
	w.gather()
	public := map[string][]string{}
	v1, foreign := w.v1(), w.foreign(list, func(path string, body []byte) {
		for _, x := range canariesIn(append([]byte(path+"\n"), body...)) {
			public[x] = append(public[x], path)
		}
	})
	for x, at := range public {
		t.Errorf("%s (%s) is shown by %d of the foreign protocols: %v", x, w.words[x], len(at), at[:min(len(at), 6)])
	}
	if len(v1) < 60 {
		t.Errorf("only %d paths of /v1", len(v1))
	}
	t.Logf("%d paths of /v1, %d of foreign protocols, %d words", len(v1), len(foreign), len(w.words))
	t.Run("readers", func(t *testing.T) {
		for _, r := range w.readers(list) {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				w := w.as(t)
				found := map[string]map[string]bool{} // by kind
				where := map[string][]string{}
				visit := func(path string, body []byte) {
					for _, x := range canariesIn(append([]byte(path+"\n"), body...)) {
						kind := strings.TrimRight(strings.TrimPrefix(x, "zqcanary"), "0123456789")
						if found[kind] == nil {
							found[kind] = map[string]bool{}
						}
						found[kind][x] = true
						if !r.may(kind) {
							where[x] = append(where[x], path)
						}
					}
				}
				ok := 0
				for _, p := range slices.Concat(v1, []string{"/openapi.json", "/metrics", "/log/checkpoint", "/log/tile/0/000", "/log/tile/entries/000"}) {
					if !w.concerns(r, p) {
						continue
					}
					status, body := w.get(r, p, false)
					if status == http.StatusOK {
						ok++
					}
					visit(p, body)
				}
				pages := w.crawl(r, visit)
				if r.party != nil {
					for _, p := range foreign {
						if !w.concerns(r, p) || r.only != "" && w.protocol[p] != r.only {
							continue
						}
						_, body := w.get(r, p, false)
						visit(p, body)
						if strings.HasPrefix(p, "/api/v1/") { // as a miner of the coordinator signs
							c := miner.Client{URL: w.url, Key: r.party.Hotkey}
							body, err := c.Do(t.Context(), http.MethodGet, p, nil, nil, true)
							visit(p, append(body, fmt.Sprint(err)...))
						}
					}
				}
				w.commands(r, visit)
				if r.party == nil {
					w.tools(visit)
				}
				if ok < 30 || pages < 15 {
					t.Errorf("only %d routes and %d pages answered", ok, pages)
				}
				for x, at := range where {
					slices.Sort(at)
					at = slices.Compact(at)
					t.Errorf("%s (%s) is shown by %d: %v", x, w.words[x], len(at), at[:min(len(at), 6)])
				}
				for _, s := range list {
					if r.may(s.kind) && len(found[s.kind]) < s.seen {
						t.Errorf("%s: only %d words are found, which may be read: the walk sees nothing", s.kind, len(found[s.kind]))
					}
				}
				w.alike(r, w.hidden(func(kind string) bool { return !r.may(kind) }))
			})
		}
	})
	if x := canariesIn(w.log.Bytes()); len(x) > 0 {
		t.Errorf("the server's log holds %v", x)
	}
	if b := w.live.Bytes(); len(b) == 0 || len(canariesIn(b)) > 0 {
		t.Errorf("the stream of changes has %d bytes and holds %v", len(b), canariesIn(b))
	}
}

// alike checks that what is hidden and what is not there are answered alike.
func (w *walk) alike(r reader, digests []agon.Digest) {
	w.t.Helper()
	for i, d := range digests {
		other := agon.Sum(fmt.Appendf(nil, "nothing has this %d", i))
		for _, p := range []string{"/v1/blobs/%s", "/v1/submissions/%s", "/v1/runs/%s", "/v1/log/proof?type=submission&id=%s", "/submissions/%s", "/runs/%s"} {
			page := !strings.HasPrefix(p, "/v1")
			s1, b1 := w.get(r, fmt.Sprintf(p, d), page)
			s2, b2 := w.get(r, fmt.Sprintf(p, other), page)
			if s1 != s2 || len(b1) != len(b2) {
				w.t.Errorf("%s: what is hidden is answered %d with %d bytes, what is not there %d with %d bytes", fmt.Sprintf(p, d), s1, len(b1), s2, len(b2))
			}
		}
	}
}
