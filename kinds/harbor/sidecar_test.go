package harbor

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/engine/task"
	"github.com/agon-arena/agon/kinds/harbor/commands"
	"github.com/agon-arena/agon/kinds/kit/kittest"
)

// beside is a task with a service that hands out a word, at the gateway's usual port.
func beside(compose string) map[string]string {
	return map[string]string{
		"beside/task.toml":                    plainToml + "[[environment.mcp_servers]]\nname = \"words\"\ntransport = \"streamable-http\"\nurl = \"http://words:8000/mcp\"\n",
		"beside/instruction.md":               "Write what http://words:8000/word says to word.txt.",
		"beside/environment/Dockerfile":       "FROM x\nWORKDIR /app\n",
		composeIn:                             compose,
		"beside/environment/words/start.py":   wordServer,
		"beside/environment/words/secret":     "Zugspitze",
		"beside/environment/words/Dockerfile": "FROM python:3.12\nWORKDIR /srv/words\nENV FILE=secret\nCOPY . .\nEXPOSE 8000/tcp\nCMD [\"python3\", \"start.py\"]\n",
		"beside/tests/test.sh":                "#!/bin/bash\n[ \"$(cat word.txt)\" = 'Zugspitze of the box' ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
		"beside/solution/solve.sh":            "python3 -c 'import urllib.request as u; open(\"word.txt\", \"wb\").write(u.urlopen(\"http://words:8000/word\").read())'\n",
	}
}

const composeIn = "beside/environment/docker-compose.yaml"

const wordsCompose = `services:
  main:
    depends_on:
      words: {condition: service_healthy}
  words:
    build: {context: ./words}
    environment: [OF=of the box]
    healthcheck:
      test: ["CMD", "python3", "-c", "import socket; socket.create_connection(('localhost', 8000)).close()"]
      interval: 100ms
      start_period: 1m
      start_interval: 100ms
`

const wordServer = `
import http.server, os

class Words(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = (open(os.environ["FILE"]).read() + " " + os.environ["OF"]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Words).serve_forever()
`

// A container beside the task's answers under its name, has no file in the agent's
// box and no process there, and the gateway stands at another port.
func TestSidecar(t *testing.T) {
	agent := `
import os, subprocess, urllib.request

def agent_main(input):
    assert input["mcp_servers"][0]["url"] == "http://words:8000/mcp", input
    assert os.environ["OPENAI_BASE_URL"] == "http://127.0.0.1:8001/v1", os.environ
    assert not os.path.exists("/srv/words"), os.listdir("/srv")
    for p in os.listdir("/proc"):
        if p.isdigit():
            assert b"start.py" not in open("/proc/" + p + "/cmdline", "rb").read(), p
    open("word.txt", "wb").write(urllib.request.urlopen("http://words:8000/word").read())
`
	for _, compose := range []string{wordsCompose, wordsCompose[:strings.Index(wordsCompose, "    healthcheck:")]} {
		for _, a := range kittest.Play(t, withTasks(beside(compose)), kittest.Files{agentFile: agent}) {
			if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 {
				t.Fatalf("%q %s %s, scores %+v, printed:\n%s", a.Outcome, a.Detail, a.Reason, a.Scores, a.Files[outputFile])
			}
		}
	}
}

const storeCompose = `services:
  store:
    build: ./store
    expose: ["6379"]
`

// storeServer speaks lines, not HTTP, and speaks first.
const storeServer = `
import socketserver

kept = {}

class Lines(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(b"+ready\n")
        for line in self.rfile:
            op, _, rest = line.decode().rstrip("\n").partition(" ")
            key, _, value = rest.partition(" ")
            if op == "SET":
                kept[key] = value
            self.wfile.write((kept.get(key, "-none") + "\n").encode())
        self.wfile.write(b"+bye\n")  # after the other has said all

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True

kept["word"] = "Zugspitze"
Server(("0.0.0.0", 6379), Lines).serve_forever()
`

// A container beside the task's may speak any protocol over TCP.
func TestSidecarSpeaksTCP(t *testing.T) {
	files := beside(storeCompose)
	delete(files, "beside/environment/words/Dockerfile")
	files["beside/task.toml"] = plainToml
	files["beside/environment/store/Dockerfile"] = "FROM python:3.12\nWORKDIR /srv/store\nCOPY . .\nCMD [\"python3\", \"start.py\"]\n"
	files["beside/environment/store/start.py"] = storeServer
	files["beside/tests/test.sh"] = strings.Replace(files["beside/tests/test.sh"], " of the box", "", 1)
	agent := `
import socket

def agent_main(input):
    one = socket.create_connection(("store", 6379)); f = one.makefile("rb")
    assert f.readline() == b"+ready\n"
    one.sendall(b"SET mine %s\n" % (b"x" * 300000)); assert len(f.readline()) == 300001
    two = socket.create_connection(("store", 6379)); g = two.makefile("rb")
    two.sendall(b"GET mine\nGET word\n"); two.shutdown(socket.SHUT_WR)
    ready, mine, word, bye, end = g.readline(), g.readline(), g.readline(), g.readline(), g.read()
    assert (ready, len(mine), bye, end) == (b"+ready\n", 300001, b"+bye\n", b""), (ready, len(mine), bye, end)
    open("word.txt", "wb").write(word)
`
	for _, a := range kittest.Play(t, withTasks(files), kittest.Files{agentFile: agent}) {
		if a.Outcome != "ok" || len(a.Scores) != 1 || a.Scores[0].Value != 1 {
			t.Fatalf("%q %s %s, scores %+v, printed:\n%s", a.Outcome, a.Detail, a.Reason, a.Scores, a.Files[outputFile])
		}
	}
}

// What a compose file asks for and boxes do not do is named by its field.
func TestCompose(t *testing.T) {
	service := func(fields string) string {
		return "services:\n  a:\n    image: x@sha256:" + strings.Repeat("ab", 32) + "\n    command: run\n    expose: [80]\n" + fields
	}
	for text, want := range map[string]string{
		service(""):                                                            "",
		service("    volumes: [/:/x]"):                                         "services.a.volumes",
		service("    privileged: true"):                                        "services.a.privileged",
		service("    environment: ['KEY=${HOME}']"):                            "services.a.environment",
		service("    healthcheck: {test: true, interval: soon}"):               "services.a.healthcheck",
		service("  b:\n    image: x:latest"):                                   "services.b.image",
		service("  b:\n    build: ./b\n    expose: [80]\n    command: [x]"):    "services.b.expose: a has port 80 too",
		service("  b:\n    build: ../b"):                                       "services.b.build",
		service("  b:\n    build: {context: ./b, target: x}"):                  "services.b.build: target",
		service("  b:\n    build: ./none\n    expose: [81]\n    command: [x]"): "services.b.build",
		service("  b:\n    build: ./b\n    command: [x]\n    expose: [0]"):     "services.b.expose",
		service("  b:\n    build: ./b\n    command: [x]"):                      "services.b.expose: 0 ports",
		service("  b:\n    build: ./b\n    expose: [81]"):                      "services.b.command",
		service("  b:\n    build: ./make\n    expose: [81]"):                   "environment/make/Dockerfile: services.b.build",
		service("  'b c':\n    build: ./b"):                                    "services.b c: its name",
		"services: [":                                                          "docker-compose.yaml",
	} {
		fsys := fstest.MapFS{
			"task.toml": {Data: []byte("[task]\nname = \"a/b\"\n")}, "instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")},
			composeFile: {Data: []byte(text)}, "environment/b/Dockerfile": {Data: []byte("FROM x\n")}, "environment/make/Dockerfile": {Data: []byte("FROM x\nRUN make\nCMD x\n")},
		}
		tk, err := task.Load(fsys, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		err = checkTask(tk)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		if b := unbuilt(tk); (b.Name == "b" && b.Context == "environment/make" && b.File == "Dockerfile") != strings.Contains(text, "./make") {
			t.Errorf("%s: unbuilt %+v", text, b)
		}
		if needsImage(tk) != strings.Contains(text, "./make") {
			t.Errorf("%s: needs an image: %v", text, needsImage(tk))
		}
	}
}

// The task's own image may be built of another directory than environment/.
func TestMainBuild(t *testing.T) {
	for build, want := range map[string]commands.Build{
		"{context: '${CONTEXT_DIR}/..', dockerfile: '${CONTEXT_DIR}/Dockerfile'}": {Name: "main", Context: ".", File: "environment/Dockerfile"},
		"{context: .., dockerfile: environment/Dockerfile}":                       {Name: "main", Context: ".", File: "environment/Dockerfile"},
		"'${CONTEXT_DIR}/inner'":                       {Name: "main", Context: "environment/inner", File: "Dockerfile"},
		"{context: '${CONTEXT_DIR}', target: x}":       {},
		"{context: ../..}":                             {Name: "main"},
		"{context: ./inner, dockerfile: ../../x/File}": {Name: "main"},
		"{context: 7}":                                 {Name: "main"},
	} {
		tk, err := task.Load(fstest.MapFS{
			"task.toml": {Data: []byte("[task]\nname = \"a/b\"\n")}, "instruction.md": {Data: []byte("x")}, "tests/test.sh": {Data: []byte("x")},
			composeFile: {Data: []byte("services:\n  main:\n    build: " + build + "\n")}, "environment/Dockerfile": {Data: []byte("FROM x\nCOPY . .\n")},
		}, "a/b")
		if err != nil {
			t.Fatal(err)
		}
		got := unbuilt(tk)
		_, _, err = mainBuild(tk)
		if (err != nil) != (want.Name != "" && want.Context == "") || err == nil && got != want || (checkTask(tk) == nil) != (want.Name == "") {
			t.Errorf("%s: %+v %v %v, want %+v", build, got, err, checkTask(tk), want)
		}
	}
}

func FuzzCompose(f *testing.F) {
	f.Add([]byte(wordsCompose))
	f.Fuzz(func(t *testing.T, b []byte) {
		fsys := fstest.MapFS{}
		for p, text := range beside(string(b)) {
			fsys[strings.TrimPrefix(p, "beside/")] = &fstest.MapFile{Data: []byte(text)}
		}
		tk, err := task.Load(fsys, "a/b")
		if err != nil {
			return
		}
		list, err := servicesOf(tk)
		if err != nil {
			return
		}
		taken := map[int]bool{}
		for _, s := range list {
			if !hostName(s.name) || len(s.args) == 0 || (s.image == "") == (s.built == nil) {
				t.Fatalf("%+v", s)
			}
			for _, p := range s.ports {
				if taken[p] {
					t.Fatalf("port %d twice", p)
				}
				taken[p] = true
			}
		}
	})
}
