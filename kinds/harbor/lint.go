package harbor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// maxLint bounds what is said of one task.
const maxLint = 200

// linter collects what Harbor's own rules (harbor lint, 0.25) say of a task, under
// their names, and what ours add (agon-…). None of it keeps a task from being
// played: boxes here stand where Harbor would trust.
type linter struct {
	t   *task.Task
	c   *conf
	out []agon.Finding
}

func (l *linter) say(rule, file string, line int, format string, args ...any) {
	if line > 0 {
		file = fmt.Sprintf("%s:%d", file, line)
	}
	f := agon.Finding{Code: rule, Field: file, Message: fmt.Sprintf(format, args...), Warning: true}
	if len(l.out) < maxLint && !slices.Contains(l.out, f) {
		l.out = append(l.out, f)
	}
}

// Lint implements kind.Linted.
func (harbor) Lint(t *task.Task) []agon.Finding {
	c, err := confOf(t)
	if err != nil {
		return []agon.Finding{{Code: "invalid-task-config", Field: "task.toml", Message: err.Error(), Warning: true}}
	}
	l := &linter{t: t, c: c}
	l.fields()
	l.files()
	l.roles()
	l.artifacts()
	l.dockerfile(dockerfile, true)
	l.dockerfile("tests/Dockerfile", false)
	l.scripts()
	for _, f := range []string{"environment/docker-compose.yaml", "tests/docker-compose.yaml"} {
		l.compose(f)
	}
	l.own()
	slices.SortStableFunc(l.out, func(a, b agon.Finding) int { return strings.Compare(a.Field, b.Field) })
	return l.out
}

// known are the fields of task.toml by table; "*" takes any. Tables of lists are as their entries.
var known = map[string]string{
	"":            "schema_version version task metadata verifier agent environment solution source multi_step_reward_strategy steps artifacts agon",
	"task":        "name version description authors keywords",
	"agent":       "network_mode allowed_hosts timeout_sec user",
	"verifier":    "network_mode allowed_hosts timeout_sec env user environment_mode environment collect",
	"collect":     "command service timeout_sec user",
	"environment": "network_mode allowed_hosts build_timeout_sec docker_image os cpus memory_mb storage_mb gpus gpu_types gpu_memory_mb tpu mcp_servers env skills_dir healthcheck workdir allow_internet memory storage image datasets",
	"solution":    "env",
	"steps":       "name agent verifier min_reward healthcheck artifacts",
	"healthcheck": "command interval_sec timeout_sec start_period_sec start_interval_sec retries",
	"mcp_servers": "name transport url command args headers",
	"artifacts":   "source destination exclude service",
	"tpu":         "type topology",
	"metadata":    "*",
	"env":         "*",
	"headers":     "*",
	"min_reward":  "*",
	"agon":        "*",
	"authors":     "*",
}

// fields finds keys that mean nothing.
func (l *linter) fields() {
	b, err := l.t.ReadFile("task.toml", task.MaxConfig)
	var m map[string]any
	if err != nil || toml.Unmarshal(b, &m) != nil {
		return // it was read before
	}
	var walk func(table, at string, v any)
	walk = func(table, at string, v any) {
		switch v := v.(type) {
		case []any:
			for i, x := range v {
				walk(table, fmt.Sprintf("%s[%d]", at, i), x)
			}
		case map[string]any:
			names := known[table]
			if names == "*" {
				return
			}
			fields := strings.Fields(names)
			for _, k := range slices.Sorted(maps.Keys(v)) {
				where := strings.TrimPrefix(at+"."+k, ".")
				if !slices.Contains(fields, k) {
					l.say("unknown-config-field", "task.toml", 0, "%.80q means nothing: remove or correct it", where)
					continue
				}
				walk(k, where, v[k])
			}
		}
	}
	walk("", "", m)
}

// files wants instructions that say something.
func (l *linter) files() {
	turns, err := l.c.turns(l.t)
	if err != nil {
		l.say("invalid-task-files", "task.toml", 0, "%v", err)
		return
	}
	for _, u := range turns {
		if strings.TrimSpace(u.instruction) == "" {
			file := "instruction.md"
			if u.name != "" {
				file = stepFile(u.name, file)
			}
			l.say("invalid-task-files", file, 0, "the instruction is empty")
		}
	}
}

// separate tells whether Harbor would judge a step in a box of its own.
func separate(c *conf, s *step) bool {
	mode, env := c.Verifier.Mode, c.Verifier.Environment
	if s != nil {
		if s.Verifier.Mode != "" {
			mode = s.Verifier.Mode
		}
		if s.Verifier.Environment != nil {
			env = s.Verifier.Environment
		}
	}
	return mode == "separate" || mode == "" && env != nil
}

func (l *linter) roles() {
	steps := make([]*step, 0, len(l.c.Steps)+1)
	for i := range l.c.Steps {
		steps = append(steps, &l.c.Steps[i])
	}
	if len(steps) == 0 {
		steps = append(steps, nil)
	}
	for _, s := range steps {
		user, at := l.c.Agent.User, "agent.user"
		if s != nil {
			at = "steps." + s.Name + ".agent.user"
			if s.Agent.User != nil {
				user = s.Agent.User
			}
		}
		if u, _, _ := strings.Cut(fmt.Sprint(user), ":"); user == nil || u == "0" || u == "root" {
			l.say("root-agent", "task.toml", 0, "%s: under Harbor the agent is root; here nobody is", at)
		}
		if !separate(l.c, s) {
			l.say("shared-verifier", "task.toml", 0, "verifier.environment_mode: under Harbor the verifier shares the agent's box; here it never does")
		}
	}
}

// artifacts looks for those that another covers, and that reach the logs.
func (l *linter) artifacts() {
	type entry struct{ source, dest, service string }
	read := func(list []any) (out []entry) {
		for _, x := range list {
			switch x := x.(type) {
			case string:
				out = append(out, entry{x, x, "main"})
			case map[string]any:
				e := entry{service: "main"}
				e.source, _ = x["source"].(string)
				if e.dest, _ = x["destination"].(string); e.dest == "" {
					e.dest = e.source
				}
				if s, _ := x["service"].(string); s != "" {
					e.service = s
				}
				out = append(out, e)
			}
		}
		return out
	}
	overlap := func(a, b string) bool {
		a, b = path.Clean("/"+a), path.Clean("/"+b)
		return a == b || strings.HasPrefix(a, strings.TrimSuffix(b, "/")+"/") || strings.HasPrefix(b, strings.TrimSuffix(a, "/")+"/")
	}
	sets := [][]entry{read(l.c.Artifacts)}
	for _, s := range l.c.Steps {
		sets = append(sets, append(read(l.c.Artifacts), read(s.Artifacts)...))
	}
	for _, set := range sets {
		for i, a := range set {
			for _, b := range set[i+1:] {
				if overlap(a.dest, b.dest) && (a.source != b.source || a.service != b.service || a.dest != b.dest) {
					l.say("overlapping-artifacts", "task.toml", 0, "artifacts: %.100q and %.100q are kept at one place", a.source, b.source)
				}
			}
			if l.c.Verifier.Mode == "separate" || l.c.Verifier.Environment != nil {
				for _, logs := range []string{"/logs/agent", "/logs/verifier"} {
					if overlap(a.source, logs) {
						l.say("artifact-log-overlap", "task.toml", 0, "artifacts: %.100q reaches %s", a.source, logs)
					}
				}
			}
		}
	}
	for _, e := range []struct{ image, at string }{{l.c.Environment.DockerImage, "environment.docker_image"}, {imageOf(l.c.Verifier.Environment), "verifier.environment.docker_image"}} {
		l.image(e.image, "task.toml", 0, e.at)
	}
}

func imageOf(p *place) string {
	if p == nil {
		return ""
	}
	return p.DockerImage
}

var digested = lazyregexp.New(`@sha256:[0-9a-fA-F]{64}$`)

func (l *linter) image(name, file string, line int, at string) {
	if name != "" && name != "scratch" && !strings.Contains(name, "$") && !digested().MatchString(name) {
		l.say("unpinned-image", file, line, "%s: %.100q may be another image tomorrow: name its sha256 digest", at, name)
	}
}

// lines are the logical lines of a script or Dockerfile, without comments and the
// bodies of here-documents.
func lines(b []byte, f func(n int, line string)) {
	end, joined, start := "", "", 0
	n := 0
	for raw := range bytes.Lines(b) {
		n++
		s := strings.TrimRight(string(raw), "\r\n")
		switch {
		case end != "":
			if strings.TrimSpace(s) == end {
				end = ""
			}
			continue
		case strings.TrimSpace(s) == "", strings.HasPrefix(strings.TrimSpace(s), "#"):
			continue
		}
		if joined == "" {
			start = n
		}
		if more, ok := strings.CutSuffix(strings.TrimRight(s, " \t"), "\\"); ok {
			joined += more + " "
			continue
		}
		s, joined = joined+s, ""
		if m := heredoc().FindStringSubmatch(s); m != nil {
			end = m[1]
			continue
		}
		f(start, s)
	}
	if joined != "" {
		f(start, joined)
	}
}

var heredoc = lazyregexp.New(`<<-?\s*['"]?(\w+)['"]?`)

// leaked are files of the grading side by their usual names.
var leaked = lazyregexp.New(`(?:^|/)(?:solution/solve\.sh|tests/(?:test\.sh|test_[^/]+\.py))$`)

func (l *linter) dockerfile(file string, agent bool) {
	b, err := l.t.ReadFile(file, maxDockerfile)
	if err != nil {
		return
	}
	stages := map[string]bool{}
	lines(b, func(n int, line string) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest = strings.TrimSpace(rest)
		for strings.HasPrefix(rest, "--") {
			_, rest, _ = strings.Cut(rest, " ")
			rest = strings.TrimSpace(rest)
		}
		args := strings.Fields(rest)
		if strings.HasPrefix(rest, "[") {
			if json.Unmarshal([]byte(rest), &args) != nil {
				return
			}
			rest = strings.Join(args, " ")
		}
		switch strings.ToUpper(word) {
		case "FROM":
			if len(args) > 0 && !stages[strings.ToLower(args[0])] {
				l.image(args[0], file, n, "FROM")
			}
			if len(args) == 3 && strings.EqualFold(args[1], "as") {
				stages[strings.ToLower(args[2])] = true
			}
		case "RUN":
			l.commands(rest, file, n, false)
		case "COPY", "ADD":
			for _, s := range args[:max(len(args)-1, 0)] {
				if agent && leaked().MatchString(s) {
					l.say("agent-image-test-leak", file, n, "%.100q belongs to the grading side: the agent's image must not have it", s)
				}
			}
		}
	})
}

func (l *linter) scripts() {
	sep := separate(l.c, nil)
	list := map[string]bool{verifier: sep, solution: false}
	for i := range l.c.Steps {
		s := &l.c.Steps[i]
		list[stepFile(s.Name, verifier)] = separate(l.c, s)
		list[stepFile(s.Name, solution)] = false
	}
	for _, f := range slices.Sorted(maps.Keys(list)) {
		if b, err := l.t.ReadFile(f, task.MaxFile); err == nil {
			lines(b, func(n int, line string) { l.commands(line, f, n, list[f]) })
		}
	}
}

var between = lazyregexp.New(`&&|\|\||[;&|]`)

// commands looks at what a line installs and downloads.
func (l *linter) commands(line, file string, n int, separate bool) {
	parts := between().Split(line, -1)
	for i, c := range parts {
		words := strings.Fields(strings.NewReplacer(`"`, "", `'`, "").Replace(c))
		for len(words) > 0 && (words[0] == "if" || words[0] == "then" || words[0] == "!" || words[0] == "sudo") {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		pk := packages(words)
		if !slices.ContainsFunc(words, func(w string) bool { return w == "-c" || strings.HasPrefix(w, "--constraint") }) && slices.ContainsFunc(pk, unpinned) {
			l.say("unpinned-python-dependency", file, n, "a Python package without its version: write NAME==VERSION")
		}
		if !separate {
			continue
		}
		if !slices.Contains(words, "--offline") && !slices.Contains(words, "--no-index") && slices.ContainsFunc(pk, func(p string) bool {
			name := strings.ReplaceAll(strings.ToLower(wordOf(p)), "_", "-")
			return name == "pytest" || name == "pytest-json-ctrf"
		}) {
			l.say("verifier-runtime-install", file, n, "the verifier installs pytest when it judges: its image should have it")
		}
		piped := i+1 < len(parts) && (strings.HasPrefix(strings.TrimSpace(parts[i+1]), "sh") || strings.HasPrefix(strings.TrimSpace(parts[i+1]), "bash"))
		if downloads(words, piped) {
			l.say("verifier-network-download", file, n, "the verifier downloads when it judges: its image should have it")
		}
	}
}

// valued are options of pip and uv that take a value.
var valued = strings.Fields("-r --requirement -c --constraint -i --index-url --extra-index-url -t --target --prefix --root --cache-dir --python -p --log --src --find-links -f --platform --config-settings -C --index --default-index --from")

// packages are the Python packages that a command names.
func packages(words []string) (out []string) {
	var args []string
	uvx := false
	switch w := append(slices.Clone(words), "", "", "", ""); {
	case (w[0] == "pip" || w[0] == "pip3") && w[1] == "install":
		args = words[2:]
	case (w[0] == "python" || w[0] == "python3") && w[1] == "-m" && w[2] == "pip" && w[3] == "install":
		args = words[4:]
	case w[0] == "uv" && (w[1] == "pip" || w[1] == "tool") && w[2] == "install":
		args = words[3:]
	case w[0] == "uvx":
		args, uvx = words[1:], true
	}
	for i := 0; i < len(args); i++ {
		flag, value, has := strings.Cut(args[i], "=")
		switch {
		case flag == "--with" || flag == "-w":
			if !has && i+1 < len(args) {
				i++
				value = args[i]
			}
			out = append(out, value)
		case slices.Contains(valued, flag):
			if !has {
				i++
			}
		case strings.HasPrefix(args[i], "-"):
		case uvx:
			return out
		default:
			out = append(out, args[i])
		}
	}
	return out
}

// wordOf is the name of a requirement.
func wordOf(p string) string {
	if i := strings.IndexAny(p, "<>=!~["); i >= 0 {
		return p[:i]
	}
	return p
}

var pinnedURL = lazyregexp.New(`@[0-9a-fA-F]{40}(?:#|$)|#sha256=[0-9a-fA-F]{64}$`)

func unpinned(p string) bool {
	switch {
	case p == "" || strings.Contains(p, "$") || strings.HasPrefix(p, ".") || strings.HasPrefix(p, "/") || strings.HasPrefix(p, "file:"):
		return false
	case strings.Contains(p, "://"):
		return !pinnedURL().MatchString(p)
	case strings.HasSuffix(p, ".whl") || strings.HasSuffix(p, ".tar.gz") || strings.HasSuffix(p, ".zip"):
		return false
	}
	_, version, ok := strings.Cut(p, "==")
	return !ok || strings.Contains(version, "*")
}

// downloads tells whether a command fetches something from outside and keeps or runs it.
func downloads(words []string, piped bool) bool {
	name := words[0]
	if name != "curl" && name != "wget" && name != "git" {
		return false
	}
	outside := slices.ContainsFunc(words[1:], func(w string) bool {
		_, at, ok := strings.Cut(w, "://")
		host, _, _ := strings.Cut(at, "/")
		host, _, _ = strings.Cut(host, ":")
		return ok && strings.Contains(host, ".") && !strings.HasPrefix(host, "127.") || strings.HasPrefix(w, "git@")
	})
	switch {
	case !outside:
		return false
	case name == "git":
		return len(words) > 1 && words[1] == "clone"
	case piped:
		return true
	case slices.Contains(words, "--spider") || slices.Contains(words, "-O-") || slices.Contains(words, "-qO-"):
		return false
	}
	return name == "wget" || slices.ContainsFunc(words[1:], func(w string) bool {
		return w == "-O" || strings.HasPrefix(w, "-o") || strings.HasPrefix(w, "--output") || strings.HasPrefix(w, ">") && w != ">/dev/null"
	})
}

// compose looks at what containers beside the task's may do.
func (l *linter) compose(file string) {
	b, err := l.t.ReadFile(file, maxDockerfile)
	if err != nil {
		return
	}
	var m struct {
		Services map[string]struct {
			Image      string `yaml:"image"`
			Build      any    `yaml:"build"`
			Privileged any    `yaml:"privileged"`
			CapAdd     []any  `yaml:"cap_add"`
			Volumes    []any  `yaml:"volumes"`
		} `yaml:"services"`
	}
	if err := yaml.Unmarshal(b, &m); err != nil {
		l.say("invalid-task-config", file, 0, "no compose file: %.200s", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.Services)) {
		s := m.Services[name]
		at := "services." + name
		if s.Build == nil {
			l.image(s.Image, file, 0, at+".image")
		}
		if p := fmt.Sprint(s.Privileged); p == "true" || p == "yes" {
			l.say("compose-privileged", file, 0, "%s.privileged: may do what the host may", at)
		}
		if len(s.CapAdd) > 0 {
			l.say("compose-additional-capabilities", file, 0, "%s.cap_add: %v", at, s.CapAdd)
		}
		for i, v := range s.Volumes {
			source, ro := "", false
			switch v := v.(type) {
			case string:
				p := strings.Split(v, ":")
				if len(p) < 2 || !strings.ContainsAny(p[0][:min(1, len(p[0]))], "./~$") {
					continue // a named volume
				}
				source, ro = p[0], len(p) > 2 && strings.Contains(p[2], "ro")
			case map[string]any:
				if v["type"] != "bind" {
					continue
				}
				source, _ = v["source"].(string)
				ro, _ = v["read_only"].(bool)
			}
			where := fmt.Sprintf("%s.volumes[%d]", at, i)
			if !ro {
				l.say("compose-writable-bind-mount", file, 0, "%s: %.100q of the host can be changed", where, source)
			}
			if path.IsAbs(source) || strings.HasPrefix(source, "~") || strings.HasPrefix(path.Join(path.Dir(file), source), "..") {
				l.say("compose-external-bind-mount", file, 0, "%s: %.100q lies outside the task", where, source)
			}
		}
	}
}

// own are rules of ours.
func (l *linter) own() {
	if l.t.Config.Metadata.Licence == "" {
		l.say("agon-no-licence", "task.toml", 0, "metadata.licence: nobody knows who may use the task")
	}
	if _, err := l.t.ReadFile(solution, task.MaxFile); err != nil && len(l.c.Steps) == 0 {
		l.say("agon-no-oracle", solution, 0, "without a reference nobody knows that the task can be solved")
	}
	if e := l.c.Environment; e.NetworkMode == "public" || e.NetworkMode == "allowlist" || e.AllowInternet != nil && *e.AllowInternet {
		l.say("agon-network", "task.toml", 0, "environment.network_mode: boxes here have the gateway only")
	}
}
