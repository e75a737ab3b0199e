package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Why a command of a page's block is not run by TestBlocksOfDocs. Those that play
// are typed by make walk (docs/first.md) and by the tests of their kinds, in boxes.
const (
	plays    = "it plays in boxes"
	stays    = "it serves until Ctrl-C"
	foreign  = "it needs a host, a file or a program of somebody else"
	needsRun = "it needs a run that was played"
	written  = "it writes into the checkout, or builds with it: make kind"
)

// apart are the commands that are not run, by how they begin.
var apart = map[string]string{
	"agon key agent": stays, "agon gateway": stays, "agon supervise": stays, "agon serve": stays, "agon env serve": stays, "agon up": plays, "agon validator": plays, "agon try": plays, "agon doctor": plays,
	"agon corpus build": needsRun, "agon corpus release": needsRun, "agon corpus stats": needsRun, "agon corpus verify": needsRun, "agon corpus classify": needsRun, "agon corpus mix": needsRun, "agon corpus audit-model": foreign,
	"agon verify": needsRun, "agon export": needsRun, "agon log witness": foreign, "agon log consistency": "it needs a head of yesterday",
	"agon judge calibrate": foreign, "agon judge rescore": needsRun, "agon ledger metagraph": foreign, "agon ledger commitments --ledger": foreign, "agon ledger set-weights": foreign,
	"agon ledger serve": stays, "agon ledger step": foreign, "agon ledger stake": foreign, "agon ledger register --wallet.hotkey": foreign, "agon ledger register --netuid N": foreign,
	"agon ledger hyper": foreign, "agon ledger axon": foreign, "agon ledger transfer": foreign, "agon ledger register --plan": foreign, "agon ledger take": foreign, "agon ledger mechanisms": foreign,
	"agon ledger call": foreign, "agon distill --arena demo-shopping --base ./Qwen3-4B --method sft": foreign, "agon distill --arena demo-shopping --base ./sft/model": foreign,
	"agon kind new": written, "agon build": written,
	"agon task check": plays, "agon task preflight": plays, "agon task import": foreign, "agon task export": foreign, "agon arena new harbor": foreign,
	"agon pack episode": plays, "agon pack batch": plays, "agon pack matrix": plays, "agon pack compare": plays, "agon pack upload": foreign, "agon pack submit": foreign, "agon pack run": plays, "agon pack status": foreign,
	"agon tools mock": foreign, "agon tools services": foreign, "agon merkle": foreign, "agon research check": plays, "agon research try": plays, "agon research submit-workspace": needsRun, "agon research status": needsRun,
	"agon shop serve": stays, "agon shop report": needsRun, "agon shop score": needsRun, "agon calc": "TestExamplesOfCalc",
	"agon operator pause my-coding": "make walk: the arena is of the file written before",
	"agon gc":                       "it needs a server that is stopped", "agon store copy": foreign,
	"agon submission list --arena shop": foreign, "agon submission view ID": needsRun,
}

// golf are the lines of a page about a kind that does not exist: make kind types them.
func golf(line string) bool { return strings.Contains(line, "golf") }

func whyApart(line string) string {
	for begin, why := range apart {
		if line == begin || strings.HasPrefix(line, begin+" ") {
			return why
		}
	}
	return ""
}

// The commands that blocks of README and docs tell to type work as they stand, one
// after the other, against a server with all demos.
func TestBlocksOfDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	var pages []string
	for _, pattern := range []string{"README.md", "docs/*.md", "kinds/*/*.md"} {
		list, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, list...)
	}
	home := t.TempDir()
	t.Chdir(home)
	w := &walker{t: t, home: home, ran: map[string]bool{}, env: map[string]string{"AGON_DATA": filepath.Join(home, "data")}}
	w.env["AGON_URL"] = w.serving()
	// What pages speak of as there: somebody registered, and a submission.
	for _, c := range []string{"key new", "ledger register --arena demo-claim", "ledger register --arena demo-pack", "agent new claim ./before"} {
		if code, said := w.run(strings.Fields(c)...); code != 0 {
			t.Fatalf("agon %s: exit %d: %s", c, code, said)
		}
	}
	code, id, said := w.printing("submission", "submit", "before/agent.py", "--arena", "demo-claim", "--name", "mine", "-o", "id")
	if code != 0 {
		t.Fatalf("submit: exit %d: %s", code, said)
	}
	id = strings.TrimSpace(id)
	ran := 0
	for _, page := range pages {
		if filepath.Base(page) == "cli.md" {
			continue // generated: usage lines
		}
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		lines := blockCommands(string(b))
		name, _ := filepath.Rel(root, page)
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			for path, text := range filesOfBlocks[filepath.ToSlash(name)] {
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for _, line := range lines {
				for _, c := range strings.Split(line, " && ") {
					c = assignments.ReplaceAllString(c, "")
					if golf(c) || whyApart(c) != "" {
						continue
					}
					if c == "agon key new" { // done before
						continue
					}
					args := shellWords(strings.NewReplacer("~/.local/share/agon", w.env["AGON_DATA"], " --wait", "", "…9f59ecbd", id, "…4a40aa86b", id, "key new me", "key new me-"+strings.NewReplacer("/", "-", ".md", "").Replace(name)).Replace(c))[1:]
					if code, said := w.run(args...); code != 0 {
						t.Errorf("`%s`: exit %d: %s", c, code, said)
					}
					ran++
				}
			}
		})
	}
	if ran < 35 {
		t.Errorf("only %d commands of blocks were run", ran)
	}
}

// filesOfBlocks are files that pages speak of as there.
var filesOfBlocks = map[string]map[string]string{
	"docs/corpus.md": {
		"public-tests.txt": "Which shop sells a red lamp?\n",
		"sft.jsonl":        `{"messages":[{"role":"user","content":"What is it?"},{"role":"assistant","content":"It."}]}` + "\n",
	},
	"kinds/pack/README.md": {
		"AGENTS.md":   "Answer every mail of today. Ask before anything is sent outside.\n",
		"theirs.json": `{"schema_version":1,"files":{"AGENTS.md":"Be brief. Never send what was not asked for.\n"},"tool_policy":{}}`,
	},
}
