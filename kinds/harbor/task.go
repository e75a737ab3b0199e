package harbor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/task"
)

// Files of a Harbor task directory.
const (
	dockerfile = "environment/Dockerfile"
	verifier   = "tests/test.sh"
	solution   = "solution/solve.sh"
	copiedDir  = "environment" // what COPY takes from

	maxDockerfile = 64 << 10
	defaultDir    = "/app"
)

// adopts tells whether a task directory that names no kind is one of Harbor's.
func adopts(t *task.Task) bool {
	if _, err := t.ReadFile(verifier, task.MaxFile); err == nil {
		return true
	}
	c, err := confOf(t)
	return err == nil && len(c.Steps) > 0
}

// checkTask says what is wrong with a task for this kind.
func checkTask(t *task.Task) error {
	bad := &task.InvalidError{Key: t.Key}
	add := func(field, format string, args ...any) {
		bad.Findings = append(bad.Findings, agon.Finding{Code: "invalid_task", Field: field, Message: fmt.Sprintf(format, args...)})
	}
	if t.Config.Agon.Repository() {
		add("agon", "a harbor task has no field but kind")
	}
	c, err := confOf(t)
	if err != nil {
		add("task.toml", "%v", err)
		return bad
	}
	c.check(t, add)
	if _, err := t.ReadFile(verifier, task.MaxFile); err != nil && len(c.Steps) == 0 {
		add(verifier, "%v", err)
	}
	if t.Image() == "" {
		if _, err := recipeOf(t); err != nil {
			add(dockerfile, "%v", err)
		}
	}
	if _, err := servicesOf(t); err != nil {
		field := composeFile
		if b := (*buildError)(nil); errors.As(err, &b) {
			field = b.file
		}
		add(field, "%v", err)
	}
	if len(bad.Findings) == 0 {
		return nil
	}
	return bad
}

// needsImage tells whether all that a task lacks is the image of its Dockerfile,
// or of one of a container beside it.
func needsImage(t *task.Task) bool {
	var bad *task.InvalidError
	if !errors.As(checkTask(t), &bad) {
		return false
	}
	for _, f := range bad.Findings {
		if path.Base(f.Field) != "Dockerfile" {
			return false
		}
	}
	return true
}

// recipe is what a Dockerfile says that needs no building.
type recipe struct {
	dir    string // WORKDIR
	env    []string
	copies []copied

	// Of a container beside the task's, which is started:
	service             bool
	built               bool // its image is here: the rest is not asked
	entrypoint, command []string
	ports               []int
}

// copied is a COPY: of a path below environment/ to one below the work
// directory. A file goes into at if that is a directory, a directory's content always does.
type copied struct {
	from, at string
	into     bool
}

// recipeOf reads a task's Dockerfile. FROM is not had: the machine's own tree
// stands in. What would have to be built is an error that names the line.
func recipeOf(t *task.Task) (*recipe, error) {
	switch context, _, err := mainBuild(t); {
	case err != nil:
		return nil, err
	case context != copiedDir:
		return nil, fmt.Errorf("%s builds it of %q: name the built image in [environment] image", composeFile, context)
	}
	b, err := t.ReadFile(dockerfile, maxDockerfile)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return &recipe{}, nil
		}
		return nil, err
	}
	return parseDockerfile(b)
}

func parseDockerfile(b []byte) (*recipe, error) {
	r := &recipe{}
	if err := r.read(b); err != nil {
		return nil, err
	}
	return r, nil
}

// read adds what a Dockerfile says.
func (r *recipe) read(b []byte) error {
	s := bufio.NewScanner(bytes.NewReader(b))
	row, joined := 0, ""
	for s.Scan() {
		row++
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if more, ok := strings.CutSuffix(line, "\\"); ok {
			joined += more + " "
			continue
		}
		line, joined = joined+line, ""
		if err := r.instruction(line); err != nil {
			return fmt.Errorf("line %d: %w", row, err)
		}
	}
	if err := s.Err(); err != nil {
		return err
	}
	if joined != "" {
		return fmt.Errorf("line %d: ends in the middle of an instruction", row)
	}
	return nil
}

func (r *recipe) instruction(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	word = strings.ToUpper(word)
	if r.service {
		if done, err := r.started(word, rest); done || err != nil || r.built && word != "WORKDIR" {
			return err
		}
	}
	switch word {
	case "FROM", "LABEL", "EXPOSE", "CMD", "SHELL", "MAINTAINER", "STOPSIGNAL":
		return nil
	case "WORKDIR":
		dir := rest
		if !path.IsAbs(dir) {
			dir = path.Join("/", r.dir, dir)
		}
		if r.dir = path.Clean(dir); !workable(r.dir) {
			return fmt.Errorf("WORKDIR %.200q: work can be done in /app and directories like it", dir)
		}
		return nil
	case "ENV":
		for _, kv := range strings.Fields(rest) {
			k, v, ok := strings.Cut(kv, "=")
			if !ok || k == "" {
				return fmt.Errorf("ENV %.200q: want NAME=VALUE", rest)
			}
			r.env = append(r.env, k+"="+strings.Trim(v, `"'`))
		}
		return nil
	case "COPY", "ADD":
		words := strings.Fields(rest)
		if len(words) < 2 || strings.HasPrefix(rest, "[") || strings.HasPrefix(words[0], "--") || strings.Contains(rest, "://") {
			return fmt.Errorf("%s %.200q: want files of environment/ and where to", word, rest)
		}
		to := words[len(words)-1]
		dir := r.dir
		if dir == "" {
			dir = defaultDir
		}
		at := to
		if !path.IsAbs(to) {
			at = path.Join(dir, to)
		}
		if at = path.Clean(at); at != dir && !strings.HasPrefix(at, dir+"/") {
			return fmt.Errorf("%s to %.200q: only into the work directory %s", word, to, dir)
		}
		at = strings.TrimPrefix(strings.TrimPrefix(at, dir), "/")
		for _, from := range words[:len(words)-1] {
			if from = path.Clean(from); !fs.ValidPath(from) || strings.ContainsAny(from, "*?[") {
				return fmt.Errorf("%s %.200q: want a path below environment/", word, from)
			}
			r.copies = append(r.copies, copied{from, at, strings.HasSuffix(to, "/") || to == "." || len(words) > 2 || at == ""})
		}
		return nil
	}
	return fmt.Errorf("%.20s cannot be done without building: name the built image in [environment] image", word)
}

// started reads what a container is started with.
func (r *recipe) started(word, rest string) (done bool, err error) {
	switch word {
	case "CMD":
		r.command, err = commandOf(rest)
	case "ENTRYPOINT":
		r.entrypoint, err = commandOf(rest)
	case "EXPOSE":
		for _, p := range strings.Fields(rest) {
			n, aerr := strconv.Atoi(strings.TrimSuffix(p, "/tcp"))
			if aerr != nil || n < 1 || n > 65535 {
				return true, fmt.Errorf("EXPOSE %.40q: want a port of TCP", p)
			}
			r.ports = append(r.ports, n)
		}
	default:
		return false, nil
	}
	return true, err
}

// workable tells whether work may be done at dir: it lies over nothing that the
// boxes have of their own.
func workable(dir string) bool {
	if len(dir) > 200 || !path.IsAbs(dir) || path.Clean(dir) != dir {
		return false
	}
	top, _, _ := strings.Cut(dir[1:], "/")
	switch top {
	case "", "agon", "bin", "dev", "etc", "lib", "lib64", "logs", "proc", "run", "sbin", "sys", "tests", "solution", "steps", "tmp", "usr", "verifier":
		return false
	}
	return !strings.HasPrefix(dir, "/opt/agon")
}
