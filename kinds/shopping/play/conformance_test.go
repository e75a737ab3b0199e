package play

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/kind/kindtest"
	"github.com/agon-arena/agon/sandbox"
	"github.com/agon-arena/agon/sandbox/sandboxtest/fake"
)

// The engine's rules hold of this kind too: what fails on our side never
// becomes a score, what an agent does to itself is.
func TestConformance(t *testing.T) {
	w := newWorld(t, "")
	w.task("one", "100001")
	w.task("two", "100001")
	code := func(s string) fs.FS { return fstest.MapFS{AgentFile: {Data: []byte(s)}} }
	good := "def agent_main(p):\n    return []\n"
	digest := w.trees.Add(t, map[string]string{AgentFile: good})
	body := `{"status":"SUCCESS","dialogue":[{"completion":{"message":{"think":"x"}},"extra_info":{}}]}`
	kindtest.Run(t, kindtest.Case{
		Kind: w.kind, Trees: w.trees,
		Arena:      agon.Arena{ID: "a", Kind: Name, Incentive: RaceRule, Tasks: w.refs, Policy: policy()},
		Submission: agon.Submission{ID: "s", Arena: "a", Digest: digest},
		Good:       code(good),
		Bad: []fs.FS{
			fstest.MapFS{},
			code("x = ("), code("\xff"), code(""), code("import os\n" + good), code("x = 1\n"), code(strings.Repeat("#", MaxAgentBytes+1)),
			fstest.MapFS{AgentFile: {Data: []byte(good)}, "b.py": {Data: []byte("x")}},
		},
		Behave: func(_ context.Context, _ *fake.Box, cmd sandbox.Cmd) sandbox.Exit {
			if cmd.Untrusted {
				_, _ = io.WriteString(cmd.Stdout, fmt.Sprintf("agon-episode %d\n%s\n", len(body), body))
			}
			return sandbox.Exit{}
		},
	})
}

func TestCheckTable(t *testing.T) {
	ids := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "'%d', ", 1000000+i)
		}
		return "X = [" + b.String() + "]\n"
	}
	main := "def agent_main(p):\n    return []\n"
	for name, c := range map[string]struct {
		src  string
		want string // code at field, or nothing
	}{
		"good":                {"from __future__ import annotations\nimport json, re, time, math\nfrom src.agent.agent_interface import Tool\n" + main, ""},
		"async is not a def":  {"agent_main = lambda p: []\n", ""},
		"os":                  {"import json\nimport os\n" + main, "banned_import agent.py:2"},
		"os.path":             {"import os.path\nfrom os.path import join\nfrom os import getenv\nfrom os import path\n" + main, ""},
		"from os":             {"from os import getenv, system\n" + main, "banned_import agent.py:1"},
		"from os in brackets": {"from os import (\n  getenv,\n  system as s,\n)\n" + main, "banned_import agent.py:1"},
		"os as":               {"import json, os as o\n" + main, "banned_import agent.py:1"},
		"subprocess":          {"import subprocess\n" + main, "banned_import agent.py:1"},
		"commands":            {"import commands\n" + main, "banned_import agent.py:1"},
		"socket":              {"def agent_main(p):\n    import socket\n", "banned_import agent.py:2"},
		"http.client":         {"from http.client import HTTPConnection\n" + main, "banned_import agent.py:1"},
		"urllib.request":      {"import urllib.request\n" + main, "banned_import agent.py:1"},
		"urllib.parse":        {"import urllib.parse\nfrom urllib.parse import quote\nfrom urllib import parse\n" + main, ""},
		"requests":            {"if True: import requests\n" + main, "banned_import agent.py:1"},
		"ctypes":              {"x = 1; import ctypes\n" + main, "banned_import agent.py:1"},
		"cffi":                {"import cffi\n" + main, "banned_import agent.py:1"},
		"pickle":              {"from pickle import *\n" + main, "banned_import agent.py:1"},
		"shutil":              {"import shutil\n" + main, "banned_import agent.py:1"},
		"base64":              {"import base64\n" + main, "banned_import agent.py:1"},
		"eval":                {main + "eval('1')\n", "banned_call agent.py:3"},
		"exec":                {main + "exec('1')\n", "banned_call agent.py:3"},
		"__import__":          {main + "__import__('os')\n", "banned_call agent.py:3"},
		"method eval":         {main + "x.eval('1')\n", ""},
		"def eval":            {main + "def eval(x): return x\n", ""},
		"open w":              {main + "open('a', 'w')\n", "banned_write agent.py:3"},
		"open mode":           {main + "open('a', encoding='x', mode='ab')\n", "banned_write agent.py:3"},
		"open plus":           {main + "open(f(1, 'w'), 'r+')\n", "banned_write agent.py:3"},
		"open r":              {main + "open('w')\nopen('a', 'r')\nopen('a', encoding='w')\n", ""},
		"write_text":          {main + "p.write_text('x')\n", "banned_write agent.py:3"},
		"write_bytes":         {main + "p.write_bytes(b'x')\n", "banned_write agent.py:3"},
		"no main":             {"x = 1\n", "no_agent_main agent.py:1"},
		"answers":             {ids(21) + main, "embedded_answers agent.py:1"},
		"some numbers":        {ids(20) + main, ""},
		"syntax":              {"def agent_main(p:\n", "syntax agent.py"},
		"1 048 577 bytes":     {main + strings.Repeat("#", MaxAgentBytes+1-len(main)), "too_large agent.py"},
		"1 048 576 bytes":     {main + strings.Repeat("#", MaxAgentBytes-len(main)), ""},
	} {
		got := ""
		for _, f := range CheckSource([]byte(c.src)) {
			got += f.Code + " " + f.Field
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for name, ok := range map[string]bool{"a": true, "My agent_1.0-x": true, "": false, strings.Repeat("a", 101): false, "ä": false, "a\n": false, "a/b": false} {
		if (CheckName(name) == "") != ok {
			t.Errorf("name %q: %q", name, CheckName(name))
		}
	}
}

func FuzzCheckSource(f *testing.F) {
	for _, s := range []string{"import os", "from os import", "from", "import", "open(", "open(a,mode=", "x = '1000000", "from . import a", "import a.b.", "exec ("} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { CheckSource([]byte(s)) })
}
