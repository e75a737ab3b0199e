package harbor

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Bounds of what a task may ask for.
const (
	maxSteps     = 32
	maxEnv       = 100
	maxArtifacts = 100
	maxCollects  = 20
	maxServers   = 20
	maxChecks    = 100 // attempts of a health check, and seconds between two
	maxCommand   = 16 << 10
)

// conf is what the kind reads of task.toml beyond what the engine does: the
// tables of Harbor's schema 1.4, and of older ones what still means something.
type conf struct {
	Strategy    string `toml:"multi_step_reward_strategy"`
	Steps       []step `toml:"steps"`
	Artifacts   []any  `toml:"artifacts"` // a path, or a table with source
	Agent       phase  `toml:"agent"`
	Verifier    phase  `toml:"verifier"`
	Environment place  `toml:"environment"`
	Solution    struct {
		Env map[string]string `toml:"env"`
	} `toml:"solution"`
}

// phase is [agent] or [verifier].
type phase struct {
	TimeoutSec   float64           `toml:"timeout_sec"`
	User         any               `toml:"user"`
	NetworkMode  string            `toml:"network_mode"`
	AllowedHosts []string          `toml:"allowed_hosts"`
	Env          map[string]string `toml:"env"`
	Mode         string            `toml:"environment_mode"`
	Environment  *place            `toml:"environment"`
	Collect      []collect         `toml:"collect"`
}

// place is [environment].
type place struct {
	DockerImage   string            `toml:"docker_image"`
	OS            string            `toml:"os"`
	CPUs          float64           `toml:"cpus"`
	MemoryMB      int64             `toml:"memory_mb"`
	StorageMB     int64             `toml:"storage_mb"`
	Memory        string            `toml:"memory"`
	Storage       string            `toml:"storage"`
	GPUs          int               `toml:"gpus"`
	TPU           map[string]any    `toml:"tpu"`
	Servers       []server          `toml:"mcp_servers"`
	Env           map[string]string `toml:"env"`
	Skills        string            `toml:"skills_dir"`
	Healthcheck   *healthcheck      `toml:"healthcheck"`
	NetworkMode   string            `toml:"network_mode"`
	AllowedHosts  []string          `toml:"allowed_hosts"`
	AllowInternet *bool             `toml:"allow_internet"`

	beside []string // names of the containers beside the task's
}

// server is one of [[environment.mcp_servers]]. The agent gets it in its input.
type server struct {
	Name      string            `toml:"name" json:"name"`
	Transport string            `toml:"transport" json:"transport"`
	URL       string            `toml:"url" json:"url,omitempty"`
	Command   string            `toml:"command" json:"command,omitempty"`
	Args      []string          `toml:"args" json:"args,omitempty"`
	Headers   map[string]string `toml:"headers" json:"headers,omitempty"`
}

// healthcheck is run until it ends with status 0, before the agent starts.
type healthcheck struct {
	Command       string  `toml:"command"`
	Interval      float64 `toml:"interval_sec"`
	Timeout       float64 `toml:"timeout_sec"`
	StartPeriod   float64 `toml:"start_period_sec"`
	StartInterval float64 `toml:"start_interval_sec"`
	Retries       int     `toml:"retries"`
}

// collect is a command that runs in the agent's box once the agent has ended.
type collect struct {
	Command string  `toml:"command"`
	Service string  `toml:"service"`
	Timeout float64 `toml:"timeout_sec"`
}

// step is one of [[steps]].
type step struct {
	Name        string       `toml:"name"`
	Agent       phase        `toml:"agent"`
	Verifier    phase        `toml:"verifier"`
	MinReward   any          `toml:"min_reward"` // a number, or a table of them by key
	Healthcheck *healthcheck `toml:"healthcheck"`
	Artifacts   []any        `toml:"artifacts"`
}

var stepName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// confOf reads a task's configuration.
func confOf(t *task.Task) (*conf, error) {
	b, err := t.ReadFile("task.toml", task.MaxConfig)
	if err != nil {
		return nil, err
	}
	c := &conf{}
	if err := toml.NewDecoder(bytes.NewReader(b)).Decode(c); err != nil {
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, col := at.Position()
			return nil, fmt.Errorf("task.toml:%d:%d: %w", row, col, at)
		}
		return nil, fmt.Errorf("task.toml: %w", err)
	}
	c.Environment.unused()
	return c, nil
}

// unused answers keys of model providers that a task passes through from the host
// to its agent: a box asks models at the gateway, which wants none.
func (p *place) unused() {
	for k, v := range p.Env {
		if strings.HasSuffix(k, "_API_KEY") && v == "${"+k+"}" {
			p.Env[k] = "unused"
		}
	}
}

// check says what a task asks for that cannot be had.
func (c *conf) check(t *task.Task, add func(field, format string, args ...any)) {
	switch c.Strategy {
	case "", "mean", "final":
	default:
		add("multi_step_reward_strategy", "%.40q: want mean or final", c.Strategy)
	}
	c.Environment.beside = serviceNames(t)
	c.Environment.check("environment", add)
	c.Agent.check("agent", add)
	c.Verifier.check("verifier", add)
	environ("solution.env", c.Solution.Env, add)
	artifacts("artifacts", c.Artifacts, add)
	if len(c.Steps) > maxSteps {
		add("steps", "%d steps, at most %d", len(c.Steps), maxSteps)
		return
	}
	seen := map[string]bool{}
	for i, s := range c.Steps {
		at := fmt.Sprintf("steps[%d]", i)
		switch low := strings.ToLower(s.Name); {
		case !stepName().MatchString(s.Name):
			add(at+".name", "%.80q: want letters, digits and ._-, at most 64", s.Name)
			continue
		case seen[low]:
			add(at+".name", "%q is there twice", s.Name)
			continue
		default:
			seen[low] = true
		}
		s.Agent.check(at+".agent", add)
		s.Verifier.check(at+".verifier", add)
		s.Healthcheck.check(at+".healthcheck", add)
		artifacts(at+".artifacts", s.Artifacts, add)
		if _, err := thresholds(s.MinReward); err != nil {
			add(at+".min_reward", "%v", err)
		}
		if _, err := t.ReadFile(stepFile(s.Name, "instruction.md"), task.MaxInstruction); err != nil {
			add(stepFile(s.Name, "instruction.md"), "%v", err)
		}
		if _, err := t.ReadFile(stepFile(s.Name, verifier), task.MaxFile); errors.Is(err, fs.ErrNotExist) {
			if _, err := t.ReadFile(verifier, task.MaxFile); err != nil {
				add(stepFile(s.Name, verifier), "neither the step nor the task has a tests/test.sh")
			}
		} else if err != nil {
			add(stepFile(s.Name, verifier), "%v", err)
		}
	}
	for _, name := range otherComposeFiles {
		if _, err := t.ReadFile(name, task.MaxFile); !errors.Is(err, fs.ErrNotExist) {
			add(name, "Harbor reads docker-compose.yaml")
		}
	}
}

func stepFile(name, file string) string { return path.Join("steps", name, file) }

func (p phase) check(at string, add func(string, string, ...any)) {
	switch p.Mode {
	case "", "shared", "separate":
	default:
		add(at+".environment_mode", "%.40q: want shared or separate", p.Mode)
	}
	environ(at+".env", p.Env, add)
	if p.Environment != nil {
		p.Environment.check(at+".environment", add)
	}
	if len(p.Collect) > maxCollects {
		add(at+".collect", "%d commands, at most %d", len(p.Collect), maxCollects)
	}
	for i, h := range p.Collect {
		at := fmt.Sprintf("%s.collect[%d]", at, i)
		if h.Command == "" || len(h.Command) > maxCommand {
			add(at+".command", "want a command of at most %d bytes", maxCommand)
		}
		if h.Service != "" && h.Service != "main" {
			add(at+".service", "%.40q: what other containers than the task's hold is not collected", h.Service)
		}
		seconds(at+".timeout_sec", h.Timeout, add)
	}
	seconds(at+".timeout_sec", p.TimeoutSec, add)
	network(at, p.NetworkMode, add)
}

func (p *place) check(at string, add func(string, string, ...any)) {
	if os := strings.ToLower(p.OS); os != "" && os != "linux" {
		add(at+".os", "%.40q: boxes are Linux", p.OS)
	}
	if p.GPUs > 0 && at != "environment" {
		add(at+".gpus", "only [environment] asks for GPUs, and all boxes of the task have them")
	}
	if len(p.TPU) > 0 {
		add(at+".tpu", "boxes have no TPUs")
	}
	for field, s := range map[string]string{"memory": p.Memory, "storage": p.Storage} {
		if _, err := megabytes(s); err != nil {
			add(at+"."+field, "%v", err)
		}
	}
	environ(at+".env", p.Env, add)
	p.Healthcheck.check(at+".healthcheck", add)
	network(at, p.NetworkMode, add)
	if len(p.Servers) > maxServers {
		add(at+".mcp_servers", "%d servers, at most %d", len(p.Servers), maxServers)
	}
	for i, s := range p.Servers {
		at := fmt.Sprintf("%s.mcp_servers[%d]", at, i)
		switch s.Transport {
		case "stdio":
			if s.Command == "" {
				add(at+".command", "missing: the transport is stdio")
			}
		case "", "sse", "http", "streamable-http":
			if !reachable(s.URL, p.beside) {
				add(at+".url", "%.200q: a box reaches servers in it, at 127.0.0.1 or localhost, and services of docker-compose.yaml by their names", s.URL)
			}
		default:
			add(at+".transport", "%.40q: want stdio, sse or streamable-http", s.Transport)
		}
		if s.Name == "" || len(s.Name) > 100 {
			add(at+".name", "want a name of at most 100 bytes")
		}
	}
}

// reachable tells whether a URL names a server of the box, or one beside it.
func reachable(u string, beside []string) bool {
	at, err := url.Parse(u)
	return err == nil && at.Scheme == "http" && at.Port() != "" && slices.Contains(append([]string{"127.0.0.1", "localhost"}, beside...), at.Hostname())
}

func (h *healthcheck) check(at string, add func(string, string, ...any)) {
	if h == nil {
		return
	}
	if h.Command == "" || len(h.Command) > maxCommand {
		add(at+".command", "want a command of at most %d bytes", maxCommand)
	}
	if h.Retries < 0 || h.Retries > maxChecks {
		add(at+".retries", "%d: want 0 to %d", h.Retries, maxChecks)
	}
	for field, v := range map[string]float64{"interval_sec": h.Interval, "start_interval_sec": h.StartInterval} {
		if !(v >= 0 && v <= maxChecks) {
			add(at+"."+field, "%v: want 0 to %d seconds", v, maxChecks)
		}
	}
	seconds(at+".timeout_sec", h.Timeout, add)
	seconds(at+".start_period_sec", h.StartPeriod, add)
}

func seconds(at string, v float64, add func(string, string, ...any)) {
	if !(v >= 0 && v <= 24*60*60) { // NaN too
		add(at, "%v seconds are out of bounds", v)
	}
}

func network(at, mode string, add func(string, string, ...any)) {
	switch mode {
	case "", "no-network", "public", "allowlist":
	default:
		add(at+".network_mode", "%.40q: want no-network, public or allowlist", mode)
	}
}

// environ checks variables. What would come from the host's own environment is
// not given: a task that needs it cannot be played.
func environ(at string, env map[string]string, add func(string, string, ...any)) {
	if len(env) > maxEnv {
		add(at, "%d variables, at most %d", len(env), maxEnv)
		return
	}
	for k, v := range env {
		switch _, err := expand(v); {
		case k == "" || len(k) > 200 || strings.ContainsAny(k, "=\x00\n") || strings.ContainsRune(v, 0) || len(v) > 32<<10:
			add(at, "%.80q is not a variable", k)
		case err != nil:
			add(at+"."+k, "%v", err)
		}
	}
}

var hostVar = lazyregexp.New(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

// expand puts the defaults of ${NAME:-default} in place.
func expand(v string) (string, error) {
	for _, m := range hostVar().FindAllStringSubmatch(v, -1) {
		if m[2] == "" {
			return "", fmt.Errorf("${%s} is of the host, which gives tasks nothing: write a default, ${%s:-…}", m[1], m[1])
		}
	}
	return hostVar().ReplaceAllString(v, "$3"), nil
}

// environOf is the environment of a map whose values were checked.
func environOf(maps ...map[string]string) (out []string) {
	for _, m := range maps {
		for k, v := range m {
			if x, err := expand(v); err == nil {
				out = append(out, k+"="+x)
			}
		}
	}
	slices.Sort(out)
	return out
}

func artifacts(at string, list []any, add func(string, string, ...any)) {
	if len(list) > maxArtifacts {
		add(at, "%d artifacts, at most %d", len(list), maxArtifacts)
		return
	}
	for i, x := range list {
		if p, err := artifact(x); err != nil {
			add(fmt.Sprintf("%s[%d]", at, i), "%v", err)
		} else if strings.HasPrefix(p+"/", testsDir+"/") {
			add(fmt.Sprintf("%s[%d]", at, i), "%.200q is the verifier's", p)
		}
	}
}

// artifact is the path that an entry names.
func artifact(x any) (string, error) {
	source, service := "", ""
	switch x := x.(type) {
	case string:
		source = x
	case map[string]any:
		source, _ = x["source"].(string)
		service, _ = x["service"].(string)
	}
	switch {
	case source == "" || len(source) > 1000 || strings.ContainsRune(source, 0) || slices.Contains(strings.Split(source, "/"), ".."):
		return "", fmt.Errorf("want the path of a file or directory")
	case service != "" && service != "main":
		return "", fmt.Errorf("%.40q: what other containers than the task's hold is not collected", service)
	}
	return path.Clean(source), nil
}

// thresholds are the rewards that a step must have, by key.
func thresholds(v any) (map[string]float64, error) {
	number := func(v any) (float64, bool) {
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case float64:
			return v, !math.IsNaN(v)
		}
		return 0, false
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		out := map[string]float64{}
		for k, x := range v {
			f, ok := number(x)
			if !ok {
				return nil, fmt.Errorf("%.40q: want a number", k)
			}
			out[k] = f
		}
		return out, nil
	}
	f, ok := number(v)
	if !ok {
		return nil, fmt.Errorf("want a number, or a table of them")
	}
	return map[string]float64{"reward": f}, nil
}

// megabytes reads a size of older tasks: "2G", "512M"; 0 for none.
func megabytes(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	unit := map[byte]float64{'G': 1024, 'M': 1, 'K': 1.0 / 1024}[strings.ToUpper(s)[len(s)-1]]
	var n float64
	if _, err := fmt.Sscanf(s[:len(s)-1], "%g", &n); err != nil || unit == 0 || !(n > 0 && n <= 1<<20) {
		return 0, fmt.Errorf("%.40q: want a size like 2G or 512M", s)
	}
	return int64(n * unit), nil
}

// limits are the arena's, within what the task asks for.
func (p *place) limits(l agon.Limits, sec float64) agon.Limits {
	least := func(v *int64, want int64) {
		if want > 0 && (*v == 0 || want < *v) {
			*v = want
		}
	}
	least(&l.WallMS, int64(sec*1000))
	least(&l.CPUMilli, int64(p.CPUs*1000))
	mem, _ := megabytes(p.Memory) // checked
	disk, _ := megabytes(p.Storage)
	least(&l.MemoryBytes, max(p.MemoryMB, mem)<<20)
	least(&l.DiskBytes, max(p.StorageMB, disk)<<20)
	return l
}

// turns are what is played: the steps, or the whole task as one.
func (c *conf) turns(t *task.Task) ([]turn, error) {
	if len(c.Steps) == 0 {
		return []turn{{instruction: t.Instruction, agent: c.Agent, verifier: c.Verifier, artifacts: c.Artifacts}}, nil
	}
	var out []turn
	for _, s := range c.Steps {
		b, err := t.ReadFile(stepFile(s.Name, "instruction.md"), task.MaxInstruction)
		if err != nil {
			return nil, err
		}
		x := turn{name: s.Name, instruction: string(b), agent: s.Agent, verifier: s.Verifier, health: s.Healthcheck, artifacts: slices.Concat(c.Artifacts, s.Artifacts)}
		if x.agent.TimeoutSec == 0 {
			x.agent.TimeoutSec = c.Agent.TimeoutSec
		}
		if x.verifier.TimeoutSec == 0 {
			x.verifier.TimeoutSec = c.Verifier.TimeoutSec
		}
		x.verifier.Collect = slices.Concat(c.Verifier.Collect, s.Verifier.Collect)
		if x.min, err = thresholds(s.MinReward); err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

// turn is one thing that an agent is asked to do, and its verifier.
type turn struct {
	name            string // of the step; "" for a task without
	instruction     string
	agent, verifier phase
	health          *healthcheck
	min             map[string]float64
	artifacts       []any
}

// snapshot is the name of what the turn left, in a record.
func (u turn) snapshot() string {
	if u.name == "" {
		return workFile
	}
	return "steps/" + u.name + ".tar"
}

// reached says why a step's rewards are too few to go on; "" if they are enough.
func (u turn) reached(rewards map[string]float64) string {
	for _, k := range sortedKeys(u.min) {
		if v, ok := rewards[k]; !ok || v < u.min[k] {
			return fmt.Sprintf("%s is below %v", k, u.min[k])
		}
	}
	return ""
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
