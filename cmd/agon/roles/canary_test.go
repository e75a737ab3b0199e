package roles_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/kinds/claim/signin"
	"github.com/agon-arena/agon/kinds/research/miner"
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
	f.all[w] = filepath.Base(f.dir) + ": " + at
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
	supply bool     // the hidden tasks are the stock of a supply, which gives one a period of a day
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

// harborAgent leaves what it sees in names and texts of files, links, a service's
// output, its own output and its prompts, and looks for what the verifier knows.
const harborAgent = `import json
import os
import re
import subprocess
import sys
import urllib.request


def agent_main(input):
    text = json.dumps(input)
    for top in (os.getcwd(), "/tests", "/solution", "/logs"):
        for at, _, files in os.walk(top):
            for name in files:
                try:
                    with open(os.path.join(at, name)) as f:
                        text += "\\n" + os.path.join(at, name) + "\\n" + f.read()
                except (OSError, UnicodeDecodeError):
                    pass
    words = sorted(set(re.findall("zqcanar" + "y[a-z]+[0-9]+", text)))
    print(text[:20000], flush=True)
    print(" ".join(words), file=sys.stderr, flush=True)
    for word in words:
        os.makedirs(word, exist_ok=True)
        with open(os.path.join(word, word + ".txt"), "w") as f:
            f.write(text)
        os.symlink(word, "link-" + word)
    os.makedirs("/logs/agent", exist_ok=True)
    for path in ("totals.json", "/logs/agent/out.txt"):
        with open(path, "w") as f:
            f.write(text)
    subprocess.run(["sh", "-c", "echo %s; echo %s >&2" % (" ".join(words), " ".join(words))])
    for path in ("/v1/chat/completions", "/" + "/".join(words)):
        try:
            body = {"model": "openai/gpt-oss-20b", "max_tokens": 400, "messages": [{"role": "user", "content": text[:6000] + " ".join(words)}]}
            base = os.getenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1").removesuffix("/v1")
            req = urllib.request.Request(base + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
            print(urllib.request.urlopen(req, timeout=30).read())
        except Exception as e:
            print(path, e)
    if "distinct" in text:
        raise RuntimeError(" ".join(words))
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
			toml:  "incentive = \"winner_takes_all\"\n[judge]\ndemo = true\n",
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
			toml:  "incentive = \"race\"\nevidence = \"foreign\"\n[incentive_numbers]\nqualify = 0.0\ninitial = 0.05\n[policy]\ntools = [\"*\"]\n[judge]\ndemo = true\n",
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
		{
			kind: "harbor", set: "basic", open: []string{"hello"}, hidden: []string{"totals", "distinct-words"},
			toml:  "incentive = \"winner_takes_all\"\n",
			agent: pythonAgent("agent.py", harborAgent),
			plant: func(f *field) {
				f.common()
				f.end("environment/Dockerfile", "# ")
				f.end("solution/solve.sh", "# ")
				f.end("tests/test.sh", "# ")
				switch filepath.Base(f.dir) {
				case "totals":
					f.end("environment/data/sales.csv", "")
					f.end("tests/test_totals.py", "# ")
				case "distinct-words":
					f.end("environment/words.txt", "")
				}
			},
			seen: 10,
		},
	}
}
