//go:build interop

package interop

import (
	"bytes"
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

const stagedArena = `id = "ridges"
kind = "coding"
title = "Ridges"
netuid = 62
licence = "MIT"
sets = ["./tasks"]
evidence = "foreign"
unjudged_seats = true
incentive = "ridges_improvement"
max_leases = 50
[[stages]]
name = "screener_1"
set = "./tasks"
threshold = 0.3
[[stages]]
name = "screener_2"
set = "./tasks"
threshold = 0.4
of_top = 0.9
[[stages]]
name = "validator"
set = "./tasks"
evaluations = 3
consensus = true
`

// start begins to serve, and is ready when it returns.
func (s *stranger) start() {
	s.t.Helper()
	s.server = exec.Command(agonBinary(s.t), "serve", "--data", filepath.Join(s.dir, "data"), "--listen", s.addr, "--arena", filepath.Join(s.dir, "arena.toml"))
	s.server.Env = append(os.Environ(), "AGON_RIDGES_ADMIN_KEY=adm", "AGON_RIDGES_SCREENER_PASSWORD=pw")
	s.server.Env = append(s.server.Env, s.env...)
	s.server.Stderr = os.Stderr
	if err := s.server.Start(); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, 2*time.Minute, "the server is ready", func() bool {
		resp, err := http.Get("http://" + s.addr + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusNoContent
	})
}

// kill ends it as a power cut would.
func (s *stranger) kill() {
	_ = s.server.Process.Kill()
	_ = s.server.Wait()
}

// get reads a route; the object is nil where it is not 200.
func (s *stranger) get(path string) map[string]any {
	resp, err := http.Get("http://" + s.addr + path)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		return nil
	}
	if bytes.HasPrefix(b, []byte("[")) {
		b = append(append([]byte(`{"list":`), b...), '}')
	}
	var out map[string]any
	if json.Unmarshal(b, &out) != nil {
		return nil
	}
	return out
}

// agent is a miner's newest agent.
func (s *stranger) agent() map[string]any {
	return s.get("/retrieval/agent-by-hotkey?miner_hotkey=" + s.keys["miner"][0])
}

func (s *stranger) credit(reference string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"miner_hotkey":%q,"reason":"r","granted_by":"g","grant_reference":%q}`, s.keys["miner"][0], reference)
	r, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/admin/upload-credits", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer adm")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		s.t.Fatalf("credit: %d", resp.StatusCode)
	}
}

// cli runs Ridges' command line and returns what it printed; it must exit 0.
func (s *stranger) cli(wallet string, args ...string) string {
	s.t.Helper()
	out, err := s.try(wallet, args...)
	if err != nil {
		s.t.Fatalf("ridges %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try is cli, which may fail.
func (s *stranger) try(wallet string, args ...string) (string, error) {
	cmd := exec.Command(s.python, append([]string{filepath.Join(s.repo, "ridges.py"), "--url", "http://" + s.addr}, append(args, "--coldkey-name", wallet, "--hotkey-name", "default")...)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "RIDGES_OPENROUTER_API_KEY=sk-a", "RIDGES_OPENROUTER_MANAGEMENT_KEY=sk-m", "COLUMNS=1000", "NO_COLOR=1", "SUBTENSOR_NETWORK=ws://"+s.addr+"/rpc")
	cmd.Stdin = strings.NewReader(s.typed)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// join starts Ridges' validator, or its screener, which sleeps through its runs.
// It may not end by itself.
func (s *stranger) join(mode, name string) {
	s.t.Helper()
	cmd := exec.Command(s.python, "-m", "validator.main")
	cmd.Dir = s.repo
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(s.dir, "home"), "PYTHONPATH="+s.repo, "NETUID=62", "SUBTENSOR_ADDRESS=ws://"+s.addr+"/rpc", "SUBTENSOR_NETWORK=ws://"+s.addr+"/rpc",
		"GIT_COMMIT="+strings.Repeat("0", 40), // a checkout may be an archive, without git
		"RIDGES_PLATFORM_URL=http://"+s.addr, "RIDGES_INFERENCE_GATEWAY_URL=http://10.0.0.1:1", "SEND_HEARTBEAT_INTERVAL_SECONDS=10", "SET_WEIGHTS_INTERVAL_SECONDS=20", "REQUEST_EVALUATION_INTERVAL_SECONDS=60",
		"SIMULATE_EVALUATION_RUNS=True", "SIMULATE_EVALUATION_RUN_MAX_TIME_PER_STAGE_SECONDS=8", "INCLUDE_SOLUTIONS=false", "UPDATE_AUTOMATICALLY=false", "CLEANUP_ENABLED=false",
		"RIDGES_HARBOR_RESULTS_DIR="+filepath.Join(s.dir, "results"), "MODE="+mode, "SCREENER_NAME="+name, "SCREENER_PASSWORD=pw", "VALIDATOR_WALLET_NAME="+name, "VALIDATOR_HOTKEY_NAME=default")
	log := filepath.Join(s.dir, name+".log")
	f, err := os.Create(log)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = f, f
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	f.Close()
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	s.t.Cleanup(func() {
		select {
		case <-ended:
			b, _ := os.ReadFile(log)
			s.t.Errorf("%s ended by itself:\n%s", name, b[max(0, len(b)-3000):])
		default:
			_ = cmd.Process.Kill()
			<-ended
		}
	})
}

// newStranger starts a server with the staged arena, and makes and registers the
// wallets of a miner and three validators. env is the server's.
func newStranger(t *testing.T, env ...string) *stranger {
	t.Helper()
	s := &stranger{t: t, dir: t.TempDir(), repo: interoptest.Checkout(t, "ridges", "ridges.py", "github.com/ridgesai/ridges"), python: interoptest.Python(t, "ridges"), env: env, typed: "my agent\n"}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ln.Close()
	for _, task := range []string{"lru-cache", "ring-buffer"} {
		if err := os.CopyFS(filepath.Join(s.dir, "tasks", task), os.DirFS("../kinds/coding/data/tasks/small/"+task)); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"arena.toml": stagedArena, "agent.py": "def agent_main(input):\n    return 'first'\n"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.start()
	t.Cleanup(s.kill)
	s.register("62", []string{"miner"}, []string{"v1", "v2", "v3"})
	return s
}

// Ridges' own command line, screeners and validators, unmodified, take an agent to
// the seat, over a kill -9 of ours while a validator works, and the validators give
// the weights that the platform tells.
func TestRidges(t *testing.T) {
	s := newStranger(t)
	s.credit("one")
	s.cli("miner", "upload", "--file", "agent.py", "--use-credit")
	if a := s.agent(); a == nil || a["version_num"] != 0.0 || a["name"] != "my agent" || a["status"] != "screening_1" {
		t.Fatalf("%v", a)
	}
	id := s.agent()["agent_id"].(string)
	status := func() any {
		a := s.get("/retrieval/agent-by-id?agent_id=" + id)
		if a == nil {
			return nil
		}
		return a["status"]
	}
	s.join("screener", "screener-1-1")
	until(t, 5*time.Minute, "the first screener is done", func() bool { return status() == "screening_2" })
	s.join("screener", "screener-2-1")
	until(t, 5*time.Minute, "the second screener is done", func() bool { return status() == "evaluating" })
	for _, v := range []string{"v1", "v2", "v3"} {
		s.join("validator", v)
	}
	// A validator that starts ends when its first call fails, and is not started again here.
	for _, v := range []string{"v1", "v2", "v3"} {
		until(t, 5*time.Minute, v+" is registered", func() bool {
			b, err := os.ReadFile(filepath.Join(s.dir, v+".log"))
			return err == nil && bytes.Contains(b, []byte("Session ID: "))
		})
	}
	// Between two reports, when no validator waits for work: a client does not try again what was cut off while it was read.
	until(t, 5*time.Minute, "three validators work", func() bool { _, working := s.reports(id); return working == 3 })
	for quiet, last := time.Now(), -1; time.Since(quiet) < 400*time.Millisecond; {
		if n, _ := s.reports(id); n != last {
			quiet, last = time.Now(), n
		}
	}
	if got := status(); got != "evaluating" {
		t.Errorf("the server is killed when the agent is %v", got)
	}
	s.kill()
	s.start()
	until(t, 5*time.Minute, "three validators are done", func() bool { return status() == "finished" })
	a := s.get("/retrieval/agent-by-id?agent_id=" + id)
	if a["final_score"] != 1.0 || a["validator_count"] != 3.0 || a["approved"] != true {
		t.Errorf("%v", a)
	}
	if got := s.get("/scoring/weights"); got[s.keys["miner"][0]] != 1.0 {
		t.Errorf("weights: %v", got)
	}

	until(t, 5*time.Minute, "a validator gives the weights", func() bool {
		list, _ := s.get("/v1/ledger/62")["weights"].([]any)
		return len(list) == 1 && list[0].(map[string]any)["hotkey"] == s.keys["miner"][0]
	})

	// A ticket for the web, and the second version.
	if err := os.WriteFile(filepath.Join(s.dir, "agent.py"), []byte("def agent_main(input):\n    return 'second'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.credit("two")
	lines := strings.Fields(s.cli("miner", "prepare-upload", "--use-credit"))
	ticket := lines[len(lines)-1]
	resp, err := http.Post("http://"+s.addr+"/upload/ticket/check", "application/json", strings.NewReader(fmt.Sprintf(`{"ticket":%q}`, ticket)))
	if err != nil {
		t.Fatal(err)
	}
	var verdict map[string]any
	err = json.NewDecoder(resp.Body).Decode(&verdict)
	resp.Body.Close()
	if err != nil || verdict["valid"] != true {
		t.Errorf("the ticket: %v %v", verdict, err)
	}
	s.cli("miner", "upload", "--file", "agent.py", "--use-credit")
	if a := s.agent(); a["version_num"] != 1.0 || a["agent_id"] == id {
		t.Errorf("%v", a)
	}
	// The owner's own.
	if err := os.CopyFS(filepath.Join(s.dir, "home", ".bittensor", "wallets", "operator"), os.DirFS(filepath.Join(s.dir, "data", "wallets", "operator"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "agent.py"), []byte("def agent_main(input):\n    return 'third'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.cli("operator", "team-upload", "--file", "agent.py")
}

// reports counts what validators have told of an agent's runs, and the validators that told anything.
func (s *stranger) reports(agent string) (n, validators int) {
	list, _ := s.get("/retrieval/evaluations-for-agent?agent_id=" + agent)["list"].([]any)
	for _, e := range list {
		was := n
		if e := e.(map[string]any); e["evaluation_set_group"] == "validator" {
			for _, r := range e["runs"].([]any) {
				for _, at := range []string{"initializing_agent", "running_agent", "initializing_eval", "running_eval"} {
					if r.(map[string]any)["started_"+at+"_at"] != nil {
						n++
					}
				}
			}
		}
		if n > was {
			validators++
		}
	}
	return n, validators
}

// field reads what Ridges' command line prints of a receipt.
func field(t *testing.T, out, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(out, name+":")
	if !ok {
		t.Fatalf("no %s in %s", name, out)
	}
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}

// Ridges' own command line burns alpha on the embedded ledger for an upload, and
// goes on with a receipt after the server was killed between burn and upload; a
// receipt is good for one agent.
func TestRidgesBurns(t *testing.T) {
	s := newStranger(t, "AGON_RIDGES_PRICE_RAO=2000000000", "AGON_RIDGES_COOLDOWN=0s")
	s.ledger("fund", s.keys["miner"][1], "100")
	s.typed = "my agent\ny\n"
	if out, err := s.try("miner", "upload", "--file", "agent.py"); err == nil || !strings.Contains(out, "Insufficient alpha") {
		t.Errorf("without stake: %v %s", err, out)
	}
	s.script(`
import sys
from bittensor import Subtensor
from bittensor_wallet import Wallet
chain = Subtensor(network=sys.argv[2])
wallet = Wallet(name="miner", hotkey="default", path=sys.argv[1])
call = chain.substrate.compose_call("SubtensorModule", "add_stake", {"hotkey": wallet.hotkey.ss58_address, "netuid": 62, "amount_staked": 10**10})
receipt = chain.substrate.submit_extrinsic(chain.substrate.create_signed_extrinsic(call=call, keypair=wallet.coldkey), wait_for_inclusion=True)
assert receipt.is_success, receipt.error_message
print("ok")
`, s.wallets(), "ws://"+s.addr+"/rpc")
	out := s.cli("miner", "upload", "--file", "agent.py")
	if a := s.agent(); a == nil || a["version_num"] != 0.0 {
		t.Fatalf("%v\n%s", a, out)
	}
	receipt := func(out string) []string {
		return []string{"--quote-id", field(t, out, "Payment Quote ID"), "--payment-block-hash", field(t, out, "Payment Block Hash"), "--payment-extrinsic-index", field(t, out, "Payment Extrinsic Index")}
	}
	spent := receipt(out)
	s.typed = "y\n"
	kept := receipt(s.cli("miner", "prepare-upload"))
	s.kill()
	s.start()
	if err := os.WriteFile(filepath.Join(s.dir, "agent.py"), []byte("def agent_main(input):\n    return 'second'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.cli("miner", append([]string{"resume-upload", "--file", "agent.py"}, kept...)...)
	if a := s.agent(); a["version_num"] != 1.0 {
		t.Errorf("%v", a)
	}
	for _, used := range [][]string{spent, kept} {
		if out, err := s.try("miner", append([]string{"resume-upload", "--file", "agent.py"}, used...)...); err == nil || !strings.Contains(out, "already used") {
			t.Errorf("a receipt was good twice: %v %s", err, out)
		}
	}
}
