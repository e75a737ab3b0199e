//go:build interop

package interop

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// harnyxRepo is the checkout of Harnyx's repository of an era (caster, harnyx).
func harnyxRepo(t *testing.T, era string) string {
	t.Helper()
	root := os.Getenv("AGON_STRANGERS")
	if root == "" {
		t.Skip("NOT RUN: AGON_STRANGERS names no folder with checkouts of others' repositories (caster, harnyx)")
	}
	repo := filepath.Join(root, era)
	if _, err := os.Stat(repo); err != nil {
		interoptest.Absent(t, "AGON_STRANGERS/"+era+" (github.com/harnyx/harnyx)")
	}
	return repo
}

// harnyxProcess is a validator of Harnyx.
type harnyxProcess struct {
	t     *testing.T
	file  string
	ended chan error
}

func (p *harnyxProcess) log() string {
	b, _ := os.ReadFile(p.file)
	return string(b[max(0, len(b)-6000):])
}

func (p *harnyxProcess) alive() {
	select {
	case err := <-p.ended:
		p.t.Fatalf("Harnyx's validator ended: %v\n%s", err, p.log())
	default:
	}
}

// harnyxEnv is an environment in which programs of a checkout find each other, the
// platform and the wallets.
func (s *subnet) harnyxEnv(repo string) []string {
	s.t.Helper()
	home := filepath.Join(s.dir, "home")
	if err := os.MkdirAll(filepath.Join(home, ".bittensor"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(s.dir, "wallets"), filepath.Join(home, ".bittensor", "wallets")); err != nil {
		s.t.Fatal(err)
	}
	path := "PYTHONPATH="
	for _, p := range []string{"packages/miner-sdk/src", "packages/commons/src", "sandbox/src", "miner/src", "validator/src"} {
		path += filepath.Join(repo, p) + ":"
	}
	return append(os.Environ(), "HOME="+home, path, "PLATFORM_BASE_URL="+s.url, "NO_PROXY=*", "BT_NO_PARSE_CLI_ARGS=1")
}

// harnyxValidator starts Harnyx's validator of an era (caster, harnyx) for a party; judge
// is where its models are.
func (s *subnet) harnyxValidator(era, name, python, judge string, env []string) *harnyxProcess {
	s.t.Helper()
	s.party(name, true)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	ln.Close()
	cmd := s.harnyxLaunch(era, name, python, judge, port, env)
	p := &harnyxProcess{t: s.t, file: filepath.Join(s.dir, name+".log"), ended: make(chan error, 1)}
	out, err := os.Create(p.file)
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { p.ended <- cmd.Wait(); close(done) }()
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-done
		}
		out.Close()
		s.endContainers(name)
		if s.t.Failed() {
			s.t.Logf("Harnyx's validator said: %s", p.log())
		}
	})
	return p
}

// endContainers ends what a party's stand-in for Docker still runs.
func (s *subnet) endContainers(name string) {
	dir := "DOCKER_STANDIN_DIR=" + filepath.Join(s.dir, name+"-containers")
	list, _ := exec.Command("env", dir, "./harnyx_docker.py", "ps", "-aq").Output()
	_ = exec.Command("env", append([]string{dir, "./harnyx_docker.py", "rm", "-f"}, strings.Fields(string(list))...)...).Run()
}

// harnyxLaunch is a command of Harnyx by its name in harnyx_launch.py, with what its
// settings want: a port of its own, models, a wallet, a folder of state.
func (s *subnet) harnyxLaunch(era, name, python, judge, port string, env []string, args ...string) *exec.Cmd {
	s.t.Helper()
	docker, err := filepath.Abs("harnyx_docker.py")
	if err != nil {
		s.t.Fatal(err)
	}
	script, err := filepath.Abs("harnyx_launch.py")
	if err != nil {
		s.t.Fatal(err)
	}
	image := "harnyx"
	if era == "caster" {
		image = era
	}
	server, _ := json.Marshal([]string{python, "-m", image + "_sandbox.app", "--serve"})
	routes := map[string]map[string]string{"scoring": {}, "duplication_detection": {}}
	for surface, list := range map[string][]string{
		"scoring":               {"google/gemma-4-31B-turbo-TEE", "Qwen/Qwen3.6-27B-TEE", "zai-org/GLM-5.2-TEE", "zai-org/GLM-5.1-TEE", "moonshotai/Kimi-K3-TEE"},
		"duplication_detection": {"google/gemma-4-31B-turbo-TEE", "deepseek-ai/DeepSeek-V4-Flash-0731-TEE", "zai-org/GLM-5.2-TEE", "moonshotai/Kimi-K3-TEE"},
	} {
		for _, m := range list {
			routes[surface][m] = "custom-openai-compatible:judge"
		}
	}
	overrides, _ := json.Marshal(routes)
	containers := filepath.Join(s.dir, name+"-containers")
	if err := os.MkdirAll(filepath.Join(s.dir, name+"-state"), 0o755); err != nil {
		s.t.Fatal(err)
	}
	cmd := exec.Command(python, append([]string{script, era}, args...)...)
	cmd.Dir = s.dir
	cmd.Env = append(slices.Clone(env),
		"DOCKER_STANDIN="+docker, "DOCKER_STANDIN_DIR="+containers, "DOCKER_STANDIN_SERVER="+string(server),
		"VALIDATOR_HOST=127.0.0.1", "VALIDATOR_PORT="+port, "VALIDATOR_PUBLIC_BASE_URL=http://127.0.0.1:"+port, "VALIDATOR_STATE_DIR="+filepath.Join(s.dir, name+"-state"),
		"SUBTENSOR_NETWORK=ws://"+strings.TrimPrefix(s.url, "http://")+"/rpc", "SUBTENSOR_ENDPOINT=ws://"+strings.TrimPrefix(s.url, "http://")+"/rpc", "SUBTENSOR_NETUID=3",
		"SUBTENSOR_WALLET_NAME="+name, "SUBTENSOR_HOTKEY_NAME=default", "SANDBOX_NETWORK=harnyx-sandbox-net", "SANDBOX_PULL_POLICY=never",
		`LLM_OPENAI_COMPATIBLE_ENDPOINTS_JSON=[{"id":"judge","base_url":"`+judge+`/v1","auth":{"type":"none"}}]`, "LLM_MODEL_PROVIDER_OVERRIDES_JSON="+string(overrides),
		"CASTER_VALIDATOR_HOST=127.0.0.1", "CASTER_VALIDATOR_PORT="+port, "CASTER_SANDBOX_IMAGE=x", "CASTER_SANDBOX_NETWORK=harnyx-sandbox-net", "CASTER_SANDBOX_PULL_POLICY=never",
		"CASTER_STATE_VOLUME_NAME="+filepath.Join(s.dir, name+"-state"), "MODELS_URL="+judge, "CHUTES_API_KEY=key-of-this-test-alone", "DESEARCH_API_KEY=key-of-this-test-alone", "SCORING_LLM_MODEL=openai/gpt-oss-20b",
		"VALIDATOR_COMPOSE_SMOKE=1", "VALIDATOR_SMOKE_WEIGHT_WORKER_POLL_INTERVAL_SECONDS=5", "HOSTNAME=nobody", "KUBERNETES_SERVICE_HOST=here", "OTEL_SDK_DISABLED=true",
	)
	return cmd
}
