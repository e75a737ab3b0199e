package harbor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/harbor/commands"
	"github.com/agon-arena/agon/kinds/harbor/dataset"
)

// A task may name other containers beside its own in environment/docker-compose.yaml.
// Each is played in a box of its own (sidecar.go). What such a file says beyond
// what can be done is refused by name.
const (
	composeFile = copiedDir + "/docker-compose.yaml"
	mainService = "main"
	maxServices = 4
	maxPorts    = 8
)

// otherComposeFiles are names that Harbor does not read.
var otherComposeFiles = []string{"environment/docker-compose.yml", "environment/compose.yaml"}

// service is a container beside the task's.
type service struct {
	name  string
	image string  // by digest; "" where recipe stands for it
	from  string  // directory of its build below the task; "" without one
	built *recipe // what its Dockerfile says that needs no building
	dir   string
	args  []string // what is started
	env   []string
	ports []int
	check *healthcheck
}

type composed struct {
	Services map[string]map[string]any `yaml:"services"`
}

// servicesOf reads the containers beside a task's, in the order of their names.
// An error names the field of the file; a *buildError is a Dockerfile that would
// have to be built.
func servicesOf(t *task.Task) (out []service, err error) {
	b, err := t.ReadFile(composeFile, maxDockerfile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	var c composed
	if err := yaml.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("%s: %w", composeFile, err)
	}
	taken := map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if name == mainService {
			continue // Harbor makes it of the task itself
		}
		s, err := serviceOf(t, name, c.Services[name])
		if err != nil {
			if b := (*buildError)(nil); errors.As(err, &b) {
				b.name = name
			}
			return nil, fmt.Errorf("services.%.60s%w", name, err)
		}
		for _, p := range s.ports {
			if other := taken[p]; other != "" {
				return nil, fmt.Errorf("services.%s.expose: %s has port %d too; all are at 127.0.0.1 of the task's box", name, other, p)
			}
			taken[p] = name
		}
		if out = append(out, s); len(out) > maxServices {
			return nil, fmt.Errorf("services: more than %d beside the task's own", maxServices)
		}
	}
	return out, nil
}

// serviceNames are the names of the containers beside a task's, whatever is wrong with them.
func serviceNames(t *task.Task) []string {
	b, err := t.ReadFile(composeFile, maxDockerfile)
	var c composed
	if err != nil || yaml.Unmarshal(b, &c) != nil {
		return nil
	}
	delete(c.Services, mainService)
	return slices.Sorted(maps.Keys(c.Services))
}

// buildError is a Dockerfile of a service that has to be built first.
type buildError struct {
	name string // of the service
	file string
	err  error
	// standin is what is built in the place of its image; nil: the task brings a Dockerfile.
	standin *standin
}

func (e *buildError) Error() string {
	if e.standin != nil {
		return ".image: " + e.err.Error()
	}
	return ".build: " + e.err.Error()
}
func (e *buildError) Unwrap() error { return e.err }

// unbuilt is the first container whose image has to be made: "main" or a service.
// Its name is "" where none has.
func unbuilt(t *task.Task) commands.Build {
	if t.Image() == "" {
		if _, err := recipeOf(t); err != nil {
			context, file, _ := mainBuild(t) // what is wrong with it, checkTask says
			return commands.Build{Name: mainService, Context: context, File: file}
		}
	}
	_, err := servicesOf(t)
	b := (*buildError)(nil)
	switch {
	case !errors.As(err, &b):
	case b.standin != nil:
		return commands.Build{Name: b.name, Standin: dataset.Base{Name: b.standin.image(), Dockerfile: b.standin.dockerfile()}}
	default:
		return commands.Build{Name: b.name, Context: path.Dir(b.file), File: path.Base(b.file)}
	}
	return commands.Build{}
}

// contextDir is what Harbor sets to a task's environment/.
const contextDir = "${CONTEXT_DIR}"

// mainBuild is of what the task's own image is built: a directory below the task,
// and the Dockerfile below that. A compose file may put another in the place of
// environment/, such as the task's own, "." here.
func mainBuild(t *task.Task) (context, file string, err error) {
	context, file = copiedDir, path.Base(dockerfile)
	b, err := t.ReadFile(composeFile, maxDockerfile)
	if errors.Is(err, fs.ErrNotExist) {
		return context, file, nil
	}
	var c composed
	if err != nil || yaml.Unmarshal(b, &c) != nil || c.Services[mainService] == nil {
		return context, file, err // a file that is not YAML is refused for its services
	}
	set := func(to *string, v any, below string) error {
		at, ok := v.(string)
		if rest, whole := strings.CutPrefix(at, contextDir); whole {
			at, below = rest, copiedDir
		}
		if at = path.Join(below, at); !ok || !fs.ValidPath(at) {
			return fmt.Errorf("services.main.build: %.100v: want a path in the task", v)
		}
		*to = at
		return nil
	}
	switch v := c.Services[mainService]["build"].(type) {
	case string:
		err = set(&context, v, copiedDir)
	case map[string]any:
		if v["context"] != nil {
			if err = set(&context, v["context"], copiedDir); err != nil {
				break
			}
		}
		at := path.Join(context, file)
		if v["dockerfile"] != nil {
			if err = set(&at, v["dockerfile"], context); err != nil {
				break
			}
		}
		if context != "." {
			rest, inside := strings.CutPrefix(at, context+"/")
			if !inside {
				err = fmt.Errorf("services.main.build.dockerfile: %.100q is not in the context", at)
			}
			at = rest
		}
		file = at
	}
	return context, file, err
}

func serviceOf(t *task.Task, name string, m map[string]any) (service, error) {
	s := service{name: name}
	if !hostName(name) {
		return s, errors.New(": its name is not a host name")
	}
	var test []string
	var entrypoint, command []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var err error
		switch v := m[k]; k {
		case "image":
			s.image, _ = v.(string)
		case "build":
			s.from, err = buildContext(v)
		case "command":
			command, err = words(v)
		case "entrypoint":
			entrypoint, err = words(v)
		case "working_dir":
			s.dir, _ = v.(string)
		case "environment":
			s.env, err = variables(v)
		case "expose", "ports":
			err = s.addPorts(v)
		case "healthcheck":
			s.check, test, err = healthOf(v)
		case "depends_on", "restart", "container_name", "hostname", "stop_grace_period", "init", "deploy", "mem_limit", "cpus", "platform", "stop_signal", "labels":
			// Boxes start together, and their limits are the arena's.
		default:
			return s, fmt.Errorf(".%.60s: cannot be done for a box", k)
		}
		if err != nil {
			return s, fmt.Errorf(".%s: %w", k, err)
		}
	}
	return s, s.resolve(t, entrypoint, command, test)
}

// resolve finds what stands for the service's image, and what is started.
func (s *service) resolve(t *task.Task, entrypoint, command, test []string) error {
	pinned := strings.Contains(s.image, "@sha256:")
	if !pinned && s.from == "" {
		in, err := standinOf(s.image)
		switch {
		case err != nil:
			return fmt.Errorf(".image: %w", err)
		case in == nil:
			return fmt.Errorf(".image: %.100q names no digest, and there is no build", s.image)
		}
		return &buildError{file: path.Join("standin", in.name, "Dockerfile"), standin: in, err: fmt.Errorf("%.100q: a package of Debian's can stand in for it, which has to be built", s.image)}
	}
	if in := builtStandin(s.image); in != nil {
		s.ports = append(s.ports, in.port)
		if entrypoint == nil {
			entrypoint = in.entrypoint
		}
		if command == nil {
			command = in.command
		}
	}
	if s.from != "" {
		file := path.Join(s.from, "Dockerfile")
		b, err := t.ReadFile(file, maxDockerfile)
		if err != nil {
			return fmt.Errorf(".build: %w", err)
		}
		// Of an image that was built, only how it is started is asked.
		r := &recipe{service: true, built: pinned}
		if err := r.read(b); err != nil {
			return &buildError{file: file, err: fmt.Errorf("%s: %w", file, err)}
		}
		if !pinned {
			s.image, s.built = "", r
			s.env = append(slices.Clone(r.env), s.env...)
		}
		if s.dir == "" {
			s.dir = r.dir
		}
		s.ports = append(s.ports, r.ports...)
		if entrypoint == nil {
			entrypoint = r.entrypoint
		}
		if command == nil {
			command = r.command
		}
	}
	slices.Sort(s.ports)
	if s.ports = slices.Compact(s.ports); len(s.ports) == 0 || len(s.ports) > maxPorts {
		return fmt.Errorf(".expose: %d ports, want 1 to %d", len(s.ports), maxPorts)
	}
	if s.args = append(slices.Clone(entrypoint), command...); len(s.args) == 0 {
		return errors.New(".command: it says not what is started (write the image's own command there)")
	}
	if s.check != nil {
		s.check.Command = healthCommand(test)
	}
	return nil
}

func buildContext(v any) (string, error) {
	at, _ := v.(string)
	if m, ok := v.(map[string]any); ok {
		at, _ = m["context"].(string)
		for k := range m {
			if k != "context" {
				return "", fmt.Errorf("%.60s: only a context with a Dockerfile", k)
			}
		}
	}
	if at = path.Clean(at); at == "." || !fs.ValidPath(at) {
		return "", fmt.Errorf("%.100q: want a directory below environment/", at)
	}
	return path.Join(copiedDir, at), nil
}

// words are a command: a list, or a line for sh.
func words(v any) ([]string, error) {
	switch v := v.(type) {
	case string:
		return []string{"sh", "-c", v}, nil
	case []any:
		out := make([]string, len(v))
		for i, x := range v {
			out[i] = fmt.Sprint(x)
		}
		return out, nil
	case nil:
		return nil, nil
	}
	return nil, errors.New("want a list or a line")
}

func variables(v any) (out []string, err error) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, fmt.Sprint(x))
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = append(out, fmt.Sprintf("%s=%v", k, v[k]))
		}
	default:
		return nil, errors.New("want variables")
	}
	for _, kv := range out {
		k, value, ok := strings.Cut(kv, "=")
		if !ok || k == "" || strings.ContainsRune(kv, 0) || strings.Contains(value, "${") {
			return nil, fmt.Errorf("%.80q: want NAME=VALUE; no variable of the host is had", kv)
		}
	}
	return out, nil
}

func (s *service) addPorts(v any) error {
	list, ok := v.([]any)
	if !ok {
		return errors.New("want a list of ports")
	}
	for _, x := range list {
		p := fmt.Sprint(x)
		p = p[strings.LastIndexByte(p, ':')+1:]
		p = strings.TrimSuffix(p, "/tcp")
		n, err := strconv.Atoi(p)
		if err != nil || n < 1 || n > 65535 {
			return fmt.Errorf("%.40q is not a port of TCP", fmt.Sprint(x))
		}
		s.ports = append(s.ports, n)
	}
	return nil
}

// healthOf reads a health check of compose, whose times are as Go writes them.
func healthOf(v any) (*healthcheck, []string, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, nil, errors.New("want a table")
	}
	h := &healthcheck{}
	var test []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var at *float64
		switch k {
		case "test":
			switch v := m[k].(type) {
			case string:
				test = []string{"CMD-SHELL", v}
			case []any:
				for _, x := range v {
					test = append(test, fmt.Sprint(x))
				}
			}
			continue
		case "retries":
			h.Retries, _ = m[k].(int)
			continue
		case "interval":
			at = &h.Interval
		case "timeout":
			at = &h.Timeout
		case "start_period":
			at = &h.StartPeriod
		case "start_interval":
			at = &h.StartInterval
		default:
			return nil, nil, fmt.Errorf("%.60s: not known", k)
		}
		d, err := time.ParseDuration(fmt.Sprint(m[k]))
		if err != nil || d < 0 || d > time.Hour {
			return nil, nil, fmt.Errorf("%s: %.40q is not a time", k, fmt.Sprint(m[k]))
		}
		*at = d.Seconds()
	}
	if len(test) == 0 || test[0] == "NONE" {
		return nil, nil, nil
	}
	if len(test) < 2 || test[0] != "CMD" && test[0] != "CMD-SHELL" || h.Retries < 0 || h.Retries > 100 {
		return nil, nil, errors.New("want CMD or CMD-SHELL, and at most 100 retries")
	}
	return h, test, nil
}

// healthCommand is a line for the shell that does what a test says.
func healthCommand(test []string) string {
	if test[0] == "CMD-SHELL" {
		return test[1]
	}
	quoted := make([]string, len(test)-1)
	for i, w := range test[1:] {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}

// commandOf is what CMD or ENTRYPOINT of a Dockerfile says.
func commandOf(rest string) ([]string, error) {
	if !strings.HasPrefix(rest, "[") {
		return []string{"sh", "-c", rest}, nil
	}
	var out []string
	if err := json.Unmarshal([]byte(rest), &out); err != nil {
		return nil, fmt.Errorf("%.100q is not a list of words", rest)
	}
	return out, nil
}

// hostName tells whether a service's name can stand in /etc/hosts.
func hostName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return s != "" && len(s) <= 60 && s[0] != '-'
}
