package imagebuild

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/agon-arena/agon/sandbox/rootfs"
)

func noBase(string) (rootfs.ImageConfig, error) {
	return rootfs.ImageConfig{Env: []string{"PATH=/bin", "BASE=b"}, WorkingDir: "/base", Cmd: []string{"sh"}}, nil
}

func TestParse(t *testing.T) {
	list, err := parse(`# syntax=docker/dockerfile:1
ARG TAG=3.13
FROM python:${TAG}-slim AS one
# a comment
ARG V=1
ARG GIVEN
ENV A="x y" B=$BASE C=${NONE:-c} D=${BASE:+set}
ENV OLD the old form
LABEL org.opencontainers.image.licenses=MIT
WORKDIR app
RUN apt-get update && \
    # in between
    apt-get install -y \
      git
RUN ["printf", "%s", "$A"]
COPY --chmod=755 --chown=1:1 a.txt "b c.txt" ./sub/
WORKDIR /srv
COPY . .
ADD x /y
USER app:app
EXPOSE 80
ENTRYPOINT ["/run"]
CMD serve me
`, map[string]string{"GIVEN": "g"}, noBase)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	p := list[0]
	want := rootfs.ImageConfig{
		Env:        []string{"PATH=/bin", "BASE=b", "A=x y", "B=b", "C=c", "D=set", "OLD=the old form"},
		WorkingDir: "/srv", User: "app:app", Entrypoint: []string{"/run"}, Cmd: []string{"/bin/sh", "-c", "serve me"},
		Labels: map[string]string{"org.opencontainers.image.licenses": "MIT"},
	}
	if p.from != "python:3.13-slim" || !reflect.DeepEqual(p.config, want) {
		t.Errorf("%q\n%+v\n%+v", p.from, p.config, want)
	}
	type short struct {
		word, dir, to, chmod, run, from string
	}
	var got []short
	for _, s := range p.steps {
		got = append(got, short{s.word, s.dir, s.to, s.chmod, strings.Join(s.run, "|"), strings.Join(s.from, "|")})
	}
	steps := []short{
		{word: "WORKDIR", dir: "/base/app"},
		{word: "RUN", dir: "/base/app", run: "/bin/sh|-c|apt-get update &&     apt-get install -y       git"},
		{word: "RUN", dir: "/base/app", run: "printf|%s|$A"},
		{word: "COPY", dir: "/base/app", to: "/base/app/sub/", chmod: "755", from: "a.txt|b c.txt"},
		{word: "WORKDIR", dir: "/srv"},
		{word: "COPY", dir: "/srv", to: "/srv/", from: "."},
		{word: "ADD", dir: "/srv", to: "/y", from: "x"},
	}
	if !reflect.DeepEqual(got, steps) {
		t.Errorf("\n%+v\n%+v", got, steps)
	}
	if env := strings.Join(p.steps[1].env, " "); !strings.HasSuffix(env, "GIVEN=g V=1") || strings.Contains(strings.Join(p.config.Env, " "), "GIVEN") {
		t.Errorf("%s", env)
	}
}

// Stages stand on each other, take files of each other, and know the ARGs before the first.
func TestStages(t *testing.T) {
	list, err := parse(`ARG TAG=3.13
FROM golang:$TAG AS Build
ARG TAG
ENV TAG_SEEN=$TAG
WORKDIR /src
FROM build
COPY --from=build /src/a b /x/
COPY --from=0 /src/a /y
COPY --from=busybox:1 /bin/sh /z
FROM scratch:$TAG
ENV TAG_SEEN=${TAG:-none}
COPY --from=1 /x /x
`, nil, noBase)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	build, second, last := list[0], list[1], list[2]
	if build.from != "golang:3.13" || second.base != build || second.config.WorkingDir != "/src" || last.from != "scratch:3.13" || last.base != nil {
		t.Errorf("%+v\n%+v\n%+v", build, second, last)
	}
	if v, _ := envOf(second.config, "TAG_SEEN"); v != "3.13" {
		t.Errorf("a stage's variables: %v", second.config.Env)
	}
	if v, _ := envOf(last.config, "TAG_SEEN"); v != "none" {
		t.Errorf("an ARG that is not named again: %v", last.config.Env)
	}
	for i, want := range []source{{stage: build}, {stage: build}, {image: "busybox:1"}} {
		if got := second.steps[i].src; got == nil || *got != want {
			t.Errorf("step %d copies from %+v", i, got)
		}
	}
	if got := last.stands(); len(got) != 1 || got[0] != second {
		t.Errorf("the last one needs %v", got)
	}
}

// Text that follows an instruction is its own, whatever stands in it.
func TestHeredocs(t *testing.T) {
	list, err := parse(`FROM a
ENV A=b
RUN cat > /x <<'EOF' && \
    chmod +x /x
# not a comment
RUN \
$A
EOF
RUN cat <<ONE 3<<-"TWO" ; echo $((1<<2)) <<<word
1
ONE
	2
	TWO
RUN <<DONE
set -e
echo $A

DONE
COPY <<F <<'G' /dir/
$A 'it''s' \$A
F
$A
G
RUN last
`, nil, noBase)
	if err != nil {
		t.Fatal(err)
	}
	steps := list[0].steps
	for n, want := range []string{
		"cat > /x <<'EOF' &&     chmod +x /x\n# not a comment\nRUN \\\n$A\nEOF\n",
		"cat <<ONE 3<<-\"TWO\" ; echo $((1<<2)) <<<word\n1\nONE\n2\nTWO\n",
		"set -e\necho $A\n\n",
		"", "last",
	} {
		if n >= len(steps) {
			t.Fatalf("%d steps", len(steps))
		}
		if got := steps[n].run; want != "" && (len(got) != 3 || got[2] != want) {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if c := steps[3]; len(c.texts) != 2 || c.texts[0].text != "b 'it''s' $A\n" || c.texts[1].text != "$A\n" || c.to != "/dir/" || len(c.from) != 2 || c.line != 19 {
		t.Errorf("%+v", c)
	}
}

// What cannot be built is named, with its line.
func TestParseRefuses(t *testing.T) {
	for text, says := range map[string]string{
		"":                                          "no FROM",
		"RUN x":                                     "line 1, RUN: a Dockerfile begins with FROM",
		"FROM a AS x\nFROM b AS X":                  "line 2, FROM: there is a stage \"x\" already",
		"FROM a AS 1":                               "is not the name of a stage",
		strings.Repeat("FROM a\n", 51):              "more than 50 stages",
		"FROM a\nADD --from=b /x /y":                "line 2, ADD: --from",
		"FROM a\nCOPY --from=$B /x /y":              "line 2, COPY: --from",
		"FROM a b":                                  "line 1, FROM",
		"FROM a\n\nRUN --mount=type=cache x":        "line 3, RUN: --mount",
		"FROM a\nRUN --network=host x":              "--network",
		"FROM --platform=linux/arm64 a":             "--platform",
		"FROM a\nADD https://x.example/y /z":        "is not in the directory",
		"FROM a\nADD x.tar.gz /z":                   "archives are not unpacked",
		"FROM a\nCOPY x":                            "where to",
		"FROM a\nRUN <<EOF\n#!/usr/bin/perl\nEOF":   "line 2, RUN: a script that names its interpreter",
		"FROM a\nCOPY <<EOF b /x\nx\nEOF":           "line 2, COPY: text that follows and files",
		"FROM a\nCOPY <<EOF /x\n${A\nEOF":           "line 2, COPY: ${ has no end",
		"FROM a\nRUN cat <<EOF\nx\nEO":              "line 3, X: it cannot be built here",
		"FROM a\nONBUILD RUN x":                     "line 2, ONBUILD: it cannot be built here",
		"FROM a\nDOWNLOAD x":                        "line 2, DOWNLOAD",
		"FROM a\nENV 1A=b":                          "not a variable",
		"FROM a\nENV LD_PRELOAD=/x":                 "not a variable",
		"FROM a\nENV A=${B":                         "no end",
		"FROM a\nENV A=${B:?x}":                     "not known",
		"FROM a\nSHELL /bin/sh":                     "line 2, SHELL",
		"FROM a\nRUN x \\":                          "in the middle",
		"# escape=`\nFROM a":                        "escape",
		"FROM a\x00":                                "not text",
		"FROM a\n" + strings.Repeat("RUN x\n", 501): "more than 500",
		"FROM a\nLABEL a=" + strings.Repeat("b", MaxDockerfile):                                 "bytes, at most",
		"FROM a\nENV A=" + strings.Repeat("x", 10_000) + "\nENV B=" + strings.Repeat("$A", 100): "grows",
	} {
		if _, err := parse(text, nil, noBase); !errors.Is(err, ErrDockerfile) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80q: %v, want %q", text, err, says)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("FROM a\nRUN cat <<-'E' <<F\n\tx\n\tE\nF\nCOPY <<E /x\n$A\nE\n")
	f.Add("FROM a\nENV A=b C='d e'\nCOPY [\"x\", \"y\"]\nRUN x \\\n# y\nz\nLABEL ${A:-b}=c")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parse(text, nil, noBase)
		if err != nil {
			if !errors.Is(err, ErrDockerfile) {
				t.Fatal(err)
			}
			return
		}
		for _, s := range list[len(list)-1].steps {
			if s.to != "" && s.to[0] != '/' || s.dir == "" {
				t.Fatalf("%+v", s)
			}
		}
	})
}
