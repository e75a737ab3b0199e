//go:build interop

package interop

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// oroModels are the models that ORO's reference agent and its judge ask for.
var oroModels = []string{"deepseek-ai/DeepSeek-V3.2-TEE", "zai-org/GLM-5.1-TEE", "google/gemma-4-31B-turbo-TEE", "zai-org/GLM-5-TEE", "Qwen/Qwen3-32B-TEE"}

// oroNetuid is of the arena in which ORO's validator works.
const oroNetuid = "15"

const oroArena = `id = "oro"
kind = "shopping"
title = "ORO"
netuid = 15
licence = "MIT"
incentive = "race"
evidence = "foreign"
unjudged_seats = true
sets = ["./public"]
hidden = ["./race"]
[incentive_numbers]
qualify = 0.25
[policy]
tools = ["find_product", "view_product_information"]
[policy.budget]
micros = 2000000
calls = 5000
[judge]
demo = true
`

// oroDocker stands for docker where ORO's validator starts a sandbox: the same
// command on this machine, its log folder where the validator made it.
const oroDocker = `#!/bin/sh
[ "$1" = run ] || exit 1
while [ "$1" != python ]; do
	case "$1" in
	-v) shift; logs=${1%%:*} ;;
	-e) shift; export "$1" ;;
	esac
	shift
done
shift
n=$#
while [ "$n" -gt 0 ]; do
	case "$1" in /app/logs*) set -- "$@" "$logs${1#/app/logs}" ;; *) set -- "$@" "$1" ;; esac
	shift
	n=$((n - 1))
done
cd "$ORO_REPO" && exec "$ORO_PYTHON" "$@"
`

// oroWorld is a server with a shopping arena, and ORO's own programs around it.
type oroWorld struct {
	*stranger
	problems []oroProblem // of the public suite
	proxy    string
	ca       string
	search   string
	ended    chan struct{} // closed when the validator ended
}

// works waits for what ORO's validator brings about.
func (o *oroWorld) works(long time.Duration, what string, holds func() bool) {
	o.t.Helper()
	until(o.t, long, what, func() bool {
		select {
		case <-o.ended:
			o.t.Fatalf("ORO's validator ended by itself before %s", what)
		default:
		}
		return holds()
	})
}

// agon runs a command in the world's folder and returns its standard output.
func (o *oroWorld) agon(args ...string) []byte {
	o.t.Helper()
	cmd := exec.Command(agonBinary(o.t), args...)
	cmd.Dir = o.dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("agon %s: %v %s", strings.Join(args, " "), err, errs.String())
	}
	return out
}

// newOROWorld makes a catalogue by agon's commands, and serves nothing yet.
func newOROWorld(t *testing.T) *oroWorld {
	t.Helper()
	o := &oroWorld{stranger: &stranger{t: t, dir: t.TempDir(), repo: interoptest.Checkout(t, "oro", "subnet/validator/main.py", "github.com/ORO-AI/oro"), python: interoptest.Python(t, "orovalidator")}}
	o.agon("shop", "generate", "--products", "12000", "--seed", "2026", "--out", "catalogue.jsonl")
	o.agon("shop", "index", "catalogue.jsonl")
	return o
}

// newORO is a world with an arena of a public suite and a race, a miner and a validator.
func newORO(t *testing.T, public, race int) *oroWorld {
	t.Helper()
	o := newOROWorld(t)
	for set, n := range map[string]int{"public": public, "race": race} {
		o.agon("shop", "problems", "catalogue.jsonl.index", "--count", fmt.Sprint(n), "--seed", "7", "--oro", "--pool", map[string]string{"public": "0/2", "race": "1/2"}[set], "--tasks", set, "--suite", set+".json")
	}
	o.problems = oroProblems(t, filepath.Join(o.dir, "public.json"))
	o.serve(oroArena, append(oroProblems(t, filepath.Join(o.dir, "race.json")), o.problems...))
	o.register(oroNetuid, []string{"miner", "miner2", "miner3"}, []string{"v1"})
	return o
}

// serve starts the server of an arena, its search server, and the model that knows the
// answers of problems.
func (o *oroWorld) serve(arena string, problems []oroProblem, env ...string) {
	t := o.t
	t.Helper()
	model := oroModel(t, problems)
	if err := os.WriteFile(filepath.Join(o.dir, "arena.toml"), []byte(arena), 0o644); err != nil {
		t.Fatal(err)
	}
	o.addr, o.search = freeAddr(t), freeAddr(t)
	o.env = append([]string{
		"AGON_SHOP_CATALOGUE=" + filepath.Join(o.dir, "catalogue.jsonl"), "AGON_LLM_BASE_URL=" + model, "AGON_LLM_API_KEY=canary-of-the-provider", "AGON_LLM_MODEL=" + strings.Join(oroModels, ","),
		"AGON_LLM_PRICE_IN=100000", "AGON_LLM_PRICE_OUT=100000",
	}, env...)
	o.start()
	t.Cleanup(o.kill)
	shop := exec.Command(agonBinary(t), "shop", "serve", "catalogue.jsonl.index", "--at", o.search)
	shop.Dir, shop.Stderr = o.dir, os.Stderr
	if err := shop.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = shop.Process.Kill(); _ = shop.Wait() })
	o.proxy, o.ca = oroNames(t, o.dir, o.addr, "http://"+o.search)
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// submit enters an agent's file by ORO's own SDK and returns its version.
func (o *oroWorld) submit(wallet, file string) string {
	o.t.Helper()
	return string(o.script(`
import io, sys
from bittensor_wallet import Wallet
from oro_sdk import BittensorAuthClient
from oro_sdk.api.miner import submit_agent
from oro_sdk.models import BodySubmitAgent
from oro_sdk.types import File
base, path, name, agent = sys.argv[1:]
c = BittensorAuthClient(base_url=base, wallet=Wallet(name=name, hotkey="default", path=path))
r = submit_agent.sync_detailed(client=c, body=BodySubmitAgent(agent_name=name, file=File(payload=io.BytesIO(open(agent, "rb").read()), file_name="agent.py", mime_type="text/x-python")))
assert r.status_code == 200, (r.status_code, r.content)
print(r.parsed.agent_version_id)
`, "http://"+o.addr, o.wallets(), wallet, file))
}

// validate starts ORO's validator, unmodified, with docker replaced.
func (o *oroWorld) validate() {
	o.t.Helper()
	bin := filepath.Join(o.dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(oroDocker), 0o755); err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.Command(o.python, "-m", "subnet.validator.main", "--backend-url", "http://"+o.addr, "--netuid", oroNetuid, "--subtensor.network", "ws://"+o.addr+"/rpc",
		"--wallet.name", "v1", "--wallet.hotkey", "default", "--wallet.path", o.wallets(), "--workspace-dir", filepath.Join(o.dir, "workspace"), "--logging.logging_dir", filepath.Join(o.dir, "logs"),
		"--poll-interval", "1", "--heartbeat-interval", "2", "--weight-update-interval", "5", "--sandbox-max-workers", "4")
	cmd.Dir = o.repo
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(o.dir, "home"), "PYTHONPATH="+o.repo, "PYTHONDONTWRITEBYTECODE=1", "PATH="+bin+":"+os.Getenv("PATH"), "ORO_AUTO_UPDATE=false",
		"ORO_REPO="+o.repo, "ORO_PYTHON="+o.python, "SEARCH_SERVER_URL=http://"+o.search, "REQUESTS_CA_BUNDLE="+o.ca,
		"HTTP_PROXY="+o.proxy, "HTTPS_PROXY="+o.proxy, "http_proxy="+o.proxy, "https_proxy="+o.proxy, "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	o.keep("oro", cmd)
}

// keep runs a program that may not end by itself, with its output in a log.
func (o *oroWorld) keep(name string, cmd *exec.Cmd) {
	o.t.Helper()
	log := filepath.Join(o.dir, name+".log")
	f, err := os.Create(log)
	if err != nil {
		o.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	f.Close()
	ended := make(chan struct{})
	o.ended = ended
	go func() { _ = cmd.Wait(); close(ended) }()
	o.t.Cleanup(func() {
		select {
		case <-ended:
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
		if o.t.Failed() {
			b, _ := os.ReadFile(log)
			o.t.Logf("%s:\n%s", name, b[max(0, len(b)-20000):])
		}
	})
}

// list is what a route of ORO's answers under a name.
func (o *oroWorld) list(path, name string) []map[string]any {
	o.t.Helper()
	out := []map[string]any{}
	b, err := json.Marshal(o.get(path)[name])
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		o.t.Fatalf("%s: %v %s", path, err, b)
	}
	return out
}

// decided waits until a version is decided. Polls are seldom: the routes count them.
func (o *oroWorld) decided(version string) {
	o.t.Helper()
	last := time.Time{}
	o.works(5*time.Minute, "ORO's validator has played "+version, func() bool {
		if time.Since(last) < 2*time.Second {
			return false
		}
		last = time.Now()
		s := o.get("/v1/public/agent-versions/" + version + "/status")
		return s != nil && s["is_closed"] == true
	})
}

// trajectory reads a problem's trajectory, as its miner does with ORO's client.
func (o *oroWorld) trajectory(version, run, problem string) []map[string]any {
	o.t.Helper()
	ask, err := json.Marshal(map[string]string{"artifact_type": "EVAL_PROBLEM_LOGS", "agent_version_id": version, "eval_run_id": run, "problem_id": problem})
	if err != nil {
		o.t.Fatal(err)
	}
	resp, err := http.Post("http://"+o.addr+"/v1/public/artifacts/download-url", "application/json", bytes.NewReader(ask))
	if err != nil {
		o.t.Fatal(err)
	}
	var link struct {
		URL string `json:"download_url"`
	}
	said, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || json.Unmarshal(said, &link) != nil || link.URL == "" {
		o.t.Fatalf("no link to the trajectory: %d %s %v", resp.StatusCode, said, err)
	}
	if resp, err = http.Get(link.URL); err != nil {
		o.t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := gzip.NewReader(resp.Body)
	if err != nil {
		o.t.Fatalf("%d: %v", resp.StatusCode, err)
	}
	var steps []map[string]any
	if err := json.NewDecoder(z).Decode(&steps); err != nil {
		o.t.Fatal(err)
	}
	return steps
}

// TestOROValidator: ORO's own validator plays ORO's own reference agent, both
// unmodified, on a suite of thirty and in the race; every play is solved, readable
// and a row of a corpus; and its weight setter gives the race's weights while
// entries still wait.
func TestOROValidator(t *testing.T) {
	o := newORO(t, 30, 8)
	agent, err := os.ReadFile(filepath.Join(o.repo, "src", "agent", "agent.py"))
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(o.dir, "second.py") // it gives up half of the suite
	text := strings.Replace(string(agent), `query = problem_data.get("query", "")`, `query = problem_data.get("query", "")
    if sum(query.encode()) % 2:
        return [create_dialogue_step(think="I do not look.", tool_results=[], response="There is none.", query=query, step=1)]`, 1)
	if err := os.WriteFile(second, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	worse := o.submit("miner2", second)
	o.validate()
	o.decided(worse)
	version := o.submit("miner", filepath.Join(o.repo, "src", "agent", "agent.py"))
	o.decided(version)

	solved, trajectories := map[string]int{}, 0
	for _, p := range o.list("/v1/public/agent-versions/"+version+"/problems", "problems") {
		for _, r := range p["validator_results"].([]any) {
			r := r.(map[string]any)
			if r["status"] == "SUCCESS" && r["score"] == 1.0 {
				solved[p["phase"].(string)]++
			} else {
				t.Errorf("%s: %v", p["problem_id"], r)
			}
			if p["phase"] == "QUALIFYING" && r["reasoning_score"] != 0.9 {
				t.Errorf("the judge's word on %s: %v", p["problem_id"], r)
			}
			if p["phase"] == "QUALIFYING" && trajectories < 3 {
				trajectories++
				if steps := o.trajectory(version, r["eval_run_id"].(string), p["problem_id"].(string)); len(steps) != 3 {
					t.Errorf("a trajectory of %d steps", len(steps))
				}
			}
		}
	}
	if solved["QUALIFYING"] != 30 || solved["RACE"] != 8 {
		t.Errorf("solved %v", solved)
	}

	// Every public play is a row, its conversation the gateway's.
	o.agon("corpus", "build", "--arena", "oro", "--url", "http://"+o.addr, "--out", "corpus")
	queries := map[string]bool{}
	for _, split := range []string{"train", "eval", "held"} {
		b, err := os.ReadFile(filepath.Join(o.dir, "corpus", split, "rows.jsonl"))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, line := range bytes.Split(bytes.TrimSpace(b), []byte("\n")) {
			var row struct {
				Axis     string
				Ratio    float64 `json:"axis_ratio"`
				Messages []struct {
					Role, Content string
					Calls         []any `json:"tool_calls"`
				}
				Reward struct {
					Outcome *int
					Judge   *float64
				}
			}
			if len(line) == 0 {
				continue
			}
			if err := json.Unmarshal(line, &row); err != nil {
				t.Fatal(err)
			}
			calls := 0
			for _, m := range row.Messages {
				calls += len(m.Calls)
				if m.Role == "user" {
					queries[m.Content] = true
				}
			}
			if calls == 0 { // of who gave up
				continue
			}
			if row.Axis != "agentic" || row.Ratio != 1 || calls != 4 || row.Reward.Outcome == nil || *row.Reward.Outcome != 1 || row.Reward.Judge == nil || *row.Reward.Judge != 0.9 {
				t.Errorf("a row: %s %v, %d calls, %+v", row.Axis, row.Ratio, calls, row.Reward)
			}
		}
	}
	if len(queries) < 30 {
		t.Errorf("%d of 30 problems became rows", len(queries))
	}

	// What can be published of them, without what a public benchmark asks too.
	if err := os.WriteFile(filepath.Join(o.dir, "benchmark.txt"), []byte(o.problems[0].Query+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o.agon("corpus", "release", "--arena", "oro", "--url", "http://"+o.addr, "--axis", "agentic", "--poison", "benchmark.txt", "--out", "release")
	card, err := os.ReadFile(filepath.Join(o.dir, "release", "README.md"))
	if err != nil || !strings.Contains(string(card), "rows overlapped and were cut") || !strings.Contains(string(card), "different queries") {
		t.Errorf("the card of the release: %v\n%s", err, card)
	}

	// Two finishers, and a third entry that is not decided: the weights are those of the race.
	third := filepath.Join(o.dir, "third.py")
	if err := os.WriteFile(third, []byte(strings.Replace(text, "% 2", "% 3", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	o.submit("miner3", third)
	until(t, time.Minute, "ORO's weight setter gives the weights", func() bool {
		for _, w := range o.list("/v1/ledger/"+oroNetuid, "weights") {
			if w["hotkey"] == o.keys["miner"][0] {
				return true
			}
		}
		return false
	})
}
