package imagebuild

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/sandbox/rootfs"
)

// Bounds of a Dockerfile.
const (
	MaxDockerfile   = 256 << 10 // bytes
	maxInstructions = 500
	maxExpanded     = 64 << 10 // bytes of one instruction, its variables put in
)

// ErrDockerfile is a Dockerfile that cannot be built here; its text names line
// and instruction.
var ErrDockerfile = errors.New("cannot build the Dockerfile")

// instruction is one line, its continuations joined.
type instruction struct {
	line  int    // where it begins, from 1
	word  string // in capitals
	flags []string
	rest  string
	docs  []heredoc // what stands below it
}

func (i instruction) bad(format string, args ...any) error {
	return i.because(fmt.Errorf(format, args...))
}

// because keeps the reason, for who asks what it is.
func (i instruction) because(err error) error {
	return fmt.Errorf("%w: line %d, %.20s: %w", ErrDockerfile, i.line, i.word, err)
}

// step is what has to be done in a box.
type step struct {
	instruction
	run   []string  // RUN: the command
	from  []string  // COPY: patterns in the context, or in what source names
	src   *source   // COPY --from; nil: the context
	texts []heredoc // COPY of text that follows: from names these, and nothing of the context
	to    string    // and where to, absolute; it ends with / where it must be a directory
	chmod string
	dir   string   // WORKDIR at that point
	env   []string // K=V, what ENV and ARG say
	user  string
}

// source is what COPY --from takes files of: an earlier stage, or an image.
type source struct {
	stage *plan
	image string
}

// plan is one stage of a Dockerfile that was read.
type plan struct {
	from   string
	base   *plan  // the stage that FROM names; nil: an image
	as     string // its name, in small letters; "": it has none
	steps  []step
	config rootfs.ImageConfig
}

// split reads instructions.
func split(text string) ([]instruction, error) {
	if len(text) > MaxDockerfile {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d", ErrDockerfile, len(text), MaxDockerfile)
	}
	if strings.ContainsRune(text, 0) {
		return nil, fmt.Errorf("%w: it is not text", ErrDockerfile)
	}
	var out []instruction
	joined, begin := "", 0
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for n := 0; n < len(lines); n++ {
		line := lines[n]
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "#") {
			if d, v, ok := strings.Cut(strings.TrimSpace(strings.TrimLeft(trimmed, "#")), "="); ok && len(out) == 0 && joined == "" && strings.TrimSpace(strings.ToLower(d)) == "escape" && strings.TrimSpace(v) != `\` {
				return nil, fmt.Errorf("%w: line %d: another escape sign than \\ is not known", ErrDockerfile, n+1)
			}
			continue
		}
		if trimmed == "" {
			continue
		}
		if joined == "" {
			begin = n + 1
			line = strings.TrimLeft(line, " \t")
		}
		if more, ok := strings.CutSuffix(strings.TrimRight(line, " \t"), `\`); ok {
			joined += more
			if joined == "" {
				joined = " "
			}
			continue
		}
		i := parseInstruction(begin, joined+line)
		joined = ""
		docs, below := heredocs(i, lines[n+1:])
		i.docs, n = docs, n+below
		if out = append(out, i); len(out) > maxInstructions {
			return nil, fmt.Errorf("%w: more than %d instructions", ErrDockerfile, maxInstructions)
		}
	}
	if strings.TrimSpace(joined) != "" {
		return nil, fmt.Errorf("%w: line %d: it ends in the middle of an instruction", ErrDockerfile, begin)
	}
	return out, nil
}

func parseInstruction(line int, text string) instruction {
	text = strings.TrimSpace(text)
	i := instruction{line: line}
	at := strings.IndexAny(text, " \t")
	if at < 0 {
		at = len(text)
	}
	i.word, i.rest = strings.ToUpper(text[:at]), strings.TrimSpace(text[at:])
	for strings.HasPrefix(i.rest, "--") {
		f, rest, _ := strings.Cut(i.rest, " ")
		i.flags, i.rest = append(i.flags, f), strings.TrimSpace(rest)
	}
	return i
}

// maxStages bounds the stages of a Dockerfile.
const maxStages = 50

// parse reads a Dockerfile, whose images have the configurations that base returns,
// into its stages. The last one is what is built.
func parse(text string, args map[string]string, base func(from string) (rootfs.ImageConfig, error)) ([]*plan, error) {
	list, err := split(text)
	if err != nil {
		return nil, err
	}
	p := &plan{}
	var stages []*plan
	global := map[string]string{} // ARG before the first FROM
	vars := global                // ENV and ARG, as expansion sees them
	given := map[string]string{}  // ARG alone
	shell := []string{"/bin/sh", "-c"}
	for _, i := range list {
		if p.from == "" && i.word != "FROM" && i.word != "ARG" {
			return nil, i.bad("a Dockerfile begins with FROM")
		}
		if len(i.flags) > 0 && i.word != "COPY" && i.word != "ADD" {
			return nil, i.bad("%.60s is not known here", i.flags[0])
		}
		text := i.rest
		if i.word != "RUN" && i.word != "CMD" && i.word != "ENTRYPOINT" && i.word != "SHELL" {
			seen := vars
			if i.word == "FROM" {
				seen = global
			}
			if text, err = expand(text, seen); err != nil {
				return nil, i.bad("%v", err)
			}
		}
		switch i.word {
		case "FROM":
			if p, err = begin(i, text, stages, base); err != nil {
				return nil, err
			}
			if stages = append(stages, p); len(stages) > maxStages {
				return nil, i.bad("more than %d stages", maxStages)
			}
			shell = []string{"/bin/sh", "-c"}
			vars, given = map[string]string{}, map[string]string{} // those before FROM are for it alone
			for _, e := range p.config.Env {
				k, v, _ := strings.Cut(e, "=")
				vars[k] = v
			}
		case "ARG":
			for _, w := range words(text) {
				k, v, set := strings.Cut(w, "=")
				if a, ok := args[k]; ok {
					v, set = a, true
				} else if g, ok := global[k]; ok && !set {
					v, set = g, true
				}
				if !name(k) {
					return nil, i.bad("%.60q is not a name", k)
				}
				if _, env := envOf(p.config, k); set && !env {
					vars[k], given[k] = v, v
				}
			}
		case "ENV":
			pairs, err := pairsOf(text)
			if err != nil {
				return nil, i.bad("%v", err)
			}
			for _, kv := range pairs {
				if !name(kv[0]) || strings.HasPrefix(kv[0], "LD_") {
					return nil, i.bad("%.60q is not a variable that an image may set", kv[0])
				}
				setEnv(&p.config, kv[0], kv[1])
				vars[kv[0]] = kv[1]
			}
		case "LABEL":
			pairs, err := pairsOf(text)
			if err != nil {
				return nil, i.bad("%v", err)
			}
			labels := map[string]string{}
			for k, v := range p.config.Labels {
				labels[k] = v
			}
			for _, kv := range pairs {
				labels[kv[0]] = kv[1]
			}
			p.config.Labels = labels
		case "WORKDIR":
			if text == "" {
				return nil, i.bad("want a directory")
			}
			p.config.WorkingDir = at(p.config.WorkingDir, unquote(text))
			p.steps = append(p.steps, p.step(i, given))
		case "USER":
			if text == "" || len(strings.Fields(text)) != 1 {
				return nil, i.bad("want one user")
			}
			p.config.User = text
		case "SHELL":
			if shell, err = list2(i.rest); err != nil || len(shell) == 0 {
				return nil, i.bad("want a list of words in JSON")
			}
		case "CMD", "ENTRYPOINT":
			argv, err := list2(i.rest)
			if err != nil {
				argv = append(slices.Clone(shell), i.rest)
			}
			if i.word == "CMD" {
				p.config.Cmd = argv
			} else {
				p.config.Entrypoint, p.config.Cmd = argv, nil
			}
		case "RUN":
			if i.rest == "" {
				return nil, i.bad("want a command")
			}
			s := p.step(i, given)
			if s.run, err = list2(i.rest); err != nil || len(s.run) == 0 {
				script, err := i.script()
				if err != nil {
					return nil, err
				}
				s.run = append(slices.Clone(shell), script)
			}
			p.steps = append(p.steps, s)
		case "COPY", "ADD":
			for n, d := range i.docs {
				if i.docs[n].text, err = expandIn(d.text, vars, false); err != nil {
					return nil, i.bad("%v", err)
				} else if d.quoted {
					i.docs[n].text = d.text
				}
			}
			s, err := p.copied(i, text, given, stages[:len(stages)-1])
			if err != nil {
				return nil, err
			}
			p.steps = append(p.steps, s)
		case "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER", "VOLUME": // nothing of it reaches a box
		default:
			return nil, i.bad("it cannot be built here")
		}
	}
	if p.from == "" {
		return nil, fmt.Errorf("%w: it has no FROM", ErrDockerfile)
	}
	return stages, nil
}

var stageName = lazyregexp.New(`^[a-z][a-z0-9-_.]*$`)

// begin reads FROM: an image, or one of the stages before.
func begin(i instruction, text string, before []*plan, base func(from string) (rootfs.ImageConfig, error)) (p *plan, err error) {
	f := strings.Fields(text)
	if len(f) != 1 && (len(f) != 3 || !strings.EqualFold(f[1], "as")) {
		return nil, i.bad("want an image")
	}
	p = &plan{from: f[0]}
	if len(f) == 3 {
		if p.as = strings.ToLower(f[2]); !stageName().MatchString(p.as) || len(p.as) > 200 {
			return nil, i.bad("%.60q is not the name of a stage", f[2])
		}
		if stageOf(before, p.as) != nil {
			return nil, i.bad("there is a stage %.60q already", p.as)
		}
	}
	if p.base = stageOf(before, p.from); p.base != nil {
		p.config = p.base.config
	} else if p.config, err = base(p.from); err != nil {
		return nil, i.because(err)
	}
	p.config.Env = slices.Clone(p.config.Env)
	return p, nil
}

// stageOf finds a stage by its name.
func stageOf(stages []*plan, name string) *plan {
	for _, s := range stages {
		if s.as != "" && s.as == strings.ToLower(name) {
			return s
		}
	}
	return nil
}

// sourceOf reads what --from names: a stage before this one, by name or number, or an image.
func sourceOf(before []*plan, name string) *source {
	if s := stageOf(before, name); s != nil {
		return &source{stage: s}
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 && n < len(before) {
		return &source{stage: before[n]}
	}
	return &source{image: name}
}

func (p *plan) step(i instruction, given map[string]string) step {
	s := step{instruction: i, dir: p.config.WorkingDir, env: slices.Clone(p.config.Env), user: p.config.User}
	if s.dir == "" {
		s.dir = "/"
	}
	keys := []string{}
	for k := range given {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if _, ok := envOf(p.config, k); !ok {
			s.env = append(s.env, k+"="+given[k])
		}
	}
	return s
}

func (p *plan) copied(i instruction, text string, given map[string]string, before []*plan) (step, error) {
	s := p.step(i, given)
	for _, f := range i.flags {
		k, v, _ := strings.Cut(f, "=")
		switch k {
		case "--from":
			if i.word == "ADD" || v == "" || strings.Contains(v, "$") {
				return s, i.bad("%.60s is not known here", f)
			}
			s.src = sourceOf(before, v)
		case "--chown", "--link": // all files are the image's owner's in a box
		case "--chmod":
			if s.chmod = v; len(v) < 3 || len(v) > 4 || strings.Trim(v, "01234567") != "" {
				return s, i.bad("--chmod: want a mode like 755")
			}
		default:
			return s, i.bad("%.60s is not known here", f)
		}
	}
	w, err := list2(text)
	if err != nil {
		w = words(text)
	}
	if len(w) < 2 {
		return s, i.bad("want what to copy and where to")
	}
	from, texts := i.named(w[:len(w)-1])
	if s.texts = texts; len(texts) > 0 && (len(from) > 0 || s.src != nil) {
		return s, i.bad("text that follows and files in one instruction: make it two")
	}
	for _, d := range texts {
		s.from = append(s.from, d.name)
	}
	for _, f := range from {
		if strings.Contains(f, "://") || strings.HasPrefix(f, "git@") {
			return s, i.bad("%.200q is not in the directory: what is fetched cannot be checked; fetch it before", f)
		}
		if i.word == "ADD" && packed(f) {
			return s, i.bad("%.200q: archives are not unpacked here: COPY it and RUN tar", f)
		}
		f = strings.TrimPrefix(path.Clean("/"+f), "/")
		if f == "" {
			f = "."
		}
		s.from = append(s.from, f)
	}
	to := w[len(w)-1]
	s.to = at(s.dir, to)
	if s.to != "/" && (strings.HasSuffix(to, "/") || to == "." || strings.HasSuffix(to, "/.") || len(s.from) > 1) {
		s.to += "/"
	}
	return s, nil
}

func packed(name string) bool {
	for _, ext := range []string{".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tbz2", ".txz"} {
		if strings.HasSuffix(name, ext) {
			return true
		}
	}
	return false
}

func at(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join("/", dir, p)
}

func envOf(c rootfs.ImageConfig, k string) (string, bool) {
	for _, e := range c.Env {
		if n, v, _ := strings.Cut(e, "="); n == k {
			return v, true
		}
	}
	return "", false
}

func setEnv(c *rootfs.ImageConfig, k, v string) {
	env := slices.Clone(c.Env)
	for i, e := range env {
		if n, _, _ := strings.Cut(e, "="); n == k {
			env[i] = k + "=" + v
			c.Env = env
			return
		}
	}
	c.Env = append(env, k+"="+v)
}

func name(k string) bool {
	if k == "" || len(k) > 200 || k[0] >= '0' && k[0] <= '9' {
		return false
	}
	for j := range len(k) {
		if !isNameByte(k[j]) {
			return false
		}
	}
	return true
}

func isNameByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// list2 reads the form ["a", "b"].
func list2(text string) (out []string, err error) {
	if !strings.HasPrefix(text, "[") {
		return nil, errors.New("no list")
	}
	err = json.Unmarshal([]byte(text), &out)
	return out, err
}

// words splits at blanks outside quotes, which it takes off.
func words(text string) (out []string) {
	var w strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			in, quote = true, c
		case c == '\\' && quote != '\'' && i+1 < len(text):
			i++
			in = true
			w.WriteByte(text[i])
		case quote == 0 && (c == ' ' || c == '\t'):
			if in {
				out = append(out, w.String())
				w.Reset()
			}
			in = false
		default:
			in = true
			w.WriteByte(c)
		}
	}
	if in {
		out = append(out, w.String())
	}
	return out
}

func unquote(text string) string {
	if w := words(text); len(w) == 1 {
		return w[0]
	}
	return text
}

// pairsOf reads "K=V K2=V2" or the old "K V".
func pairsOf(text string) (out [][2]string, err error) {
	w := words(text)
	if len(w) == 0 {
		return nil, errors.New("want NAME=VALUE")
	}
	if !strings.Contains(w[0], "=") {
		k, v, ok := strings.Cut(text, " ")
		if !ok {
			return nil, errors.New("want NAME=VALUE")
		}
		return [][2]string{{k, strings.TrimSpace(v)}}, nil
	}
	for _, kv := range w {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("%.60q: want NAME=VALUE", kv)
		}
		out = append(out, [2]string{k, v})
	}
	return out, nil
}

// expand puts variables in: $NAME, ${NAME}, ${NAME:-else}, ${NAME:+instead}.
func expand(text string, vars map[string]string) (string, error) { return expandIn(text, vars, true) }

// expandIn is expand of text in which single quotes do or do not keep variables as they stand.
func expandIn(text string, vars map[string]string, quotes bool) (string, error) {
	var out strings.Builder
	single := false
	for i := 0; i < len(text); i++ {
		if out.Len() > maxExpanded {
			return "", fmt.Errorf("it grows to more than %d bytes", maxExpanded)
		}
		c := text[i]
		if c == '\'' && quotes {
			single = !single
		}
		if c == '\\' && i+1 < len(text) && text[i+1] == '$' {
			out.WriteByte('$')
			i++
			continue
		}
		if c != '$' || single || i+1 >= len(text) {
			out.WriteByte(c)
			continue
		}
		if text[i+1] == '{' {
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return "", errors.New("${ has no end")
			}
			inner := text[i+2 : i+end]
			i += end
			k, rest, cond := strings.Cut(inner, ":")
			v, ok := vars[k]
			if !name(k) || cond && (rest == "" || rest[0] != '-' && rest[0] != '+') {
				return "", fmt.Errorf("${%.60s} is not known here", inner)
			}
			switch {
			case cond && rest[0] == '-' && (!ok || v == ""), cond && rest[0] == '+' && ok && v != "":
				v = rest[1:]
			case cond && rest[0] == '+':
				v = ""
			}
			out.WriteString(v)
			continue
		}
		j := i + 1
		for j < len(text) && isNameByte(text[j]) {
			j++
		}
		if j == i+1 {
			out.WriteByte(c)
			continue
		}
		out.WriteString(vars[text[i+1:j]])
		i = j - 1
	}
	return out.String(), nil
}
