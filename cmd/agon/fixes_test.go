package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/kinds"
	"github.com/agon-arena/agon/sandbox/rootfs/rootfstest"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// walker is somebody at a terminal who types commands and does what errors say.
type walker struct {
	t    *testing.T
	env  map[string]string
	home string
	ran  map[string]bool // paths of commands that fixes named and that were run
}

// run types a command and returns its exit code and what it said on stderr.
func (w *walker) run(args ...string) (int, string) {
	w.t.Helper()
	code, _, said := w.printing(args...)
	return code, said
}

// printing is run with what it printed besides.
func (w *walker) printing(args ...string) (code int, printed, said string) {
	w.t.Helper()
	s, out, errOut := iostreams.Test("")
	kits := kinds.All()
	a := &cli.App{
		IO: s, Now: time.Now, Services: app.Services(kits), Extras: kits.Commands(),
		Env: config.Env{Getenv: func(k string) string { return w.env[k] }, Dir: w.home, Home: w.home, UserCacheDir: w.home},
	}
	code = a.Main(w.t.Context(), args)
	return code, out.String(), errOut.String()
}

// errorOf and fixOf are the two lines of an error.
func errorOf(said string) string { return lineOf(said, "error: ") }
func fixOf(said string) string   { return lineOf(said, "fix: ") }

func lineOf(said, head string) string {
	for line := range strings.Lines(said) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), head); ok {
			return rest
		}
	}
	return ""
}

// commandsOf are the commands that a fix names, as they are to be typed.
func (w *walker) commandsOf(fix string) (out []string) {
	for _, x := range quoted.FindAllStringSubmatch(fix, -1) {
		out = append(out, x[1])
	}
	for _, x := range bareLine.FindAllStringSubmatch(quoted.ReplaceAllString(fix, ""), -1) {
		out = append(out, typed(w.t, x[1]))
	}
	return out
}

// bareLine is bare, with numbers and paths among its words.
var bareLine = regexp.MustCompile(`(?:^|[:;,(] |with |run |use )(agon [a-z][-a-z]*(?: (?:--?[a-z][-a-z.]*(?:=\S+)?|[-a-z0-9/._]+|[A-Z./]+))*)`)

// typed cuts prose after a command, and keeps the value of a last flag.
func typed(t *testing.T, line string) string {
	short := shortest(t, line)
	words, n := strings.Fields(line), len(strings.Fields(short))
	if last := words[n-1]; n < len(words) && strings.HasPrefix(last, "--") && !strings.Contains(last, "=") {
		return strings.Join(words[:n+1], " ")
	}
	return short
}

func path(t *testing.T, line string) string {
	t.Helper()
	a, _ := whole(t)
	cmd, _, err := a.Tree().Find(strings.Fields(line)[1:])
	if err != nil {
		t.Fatalf("`%s`: %v", line, err)
	}
	return cmd.CommandPath()
}

// serving starts the platform with all demos and returns its address.
func (w *walker) serving() string {
	w.t.Helper()
	s, _, errOut := iostreams.Test("")
	kits := kinds.All()
	a := &cli.App{
		IO: s, Now: time.Now, Services: app.Services(kits), Extras: kits.Commands(),
		Env: config.Env{Getenv: func(k string) string { return w.env[k] }, Dir: w.home, Home: w.home, UserCacheDir: w.home},
	}
	said := make(chan string, 1)
	s.Err = watch{errOut, regexp.MustCompile(`agon serves at (\S+)`), said}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	go func() {
		done <- a.Main(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--registration", "open"})
	}()
	w.t.Cleanup(func() {
		stop()
		<-done
	})
	select {
	case url := <-said:
		return url
	case code := <-done:
		done <- code
		w.t.Fatalf("agon serve ended with %d: %s", code, errOut)
	}
	return ""
}

// watch passes on what is written and says the first match of a line once.
type watch struct {
	to   *iostreams.Buffer
	what *regexp.Regexp
	said chan<- string
}

func (w watch) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	if m := w.what.FindStringSubmatch(w.to.String()); m != nil {
		select {
		case w.said <- m[1]:
		default:
		}
	}
	return n, err
}

// A fix is typed as it stands, and gets one step further: the same command then
// works, or fails for another reason.
func TestFixesLeadOn(t *testing.T) {
	all := mends(t) // by paths from here
	dir := t.TempDir()
	t.Chdir(dir)
	w := &walker{t: t, home: dir, ran: map[string]bool{}, env: map[string]string{"AGON_DATA": filepath.Join(dir, "data")}}
	url := w.serving()
	w.env["AGON_URL"] = url
	write := func(name, text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	must := func(args ...string) {
		t.Helper()
		if code, said := w.run(args...); code != 0 {
			t.Fatalf("agon %s: exit %d: %s", strings.Join(args, " "), code, said)
		}
	}
	// The demo's validator may play at once, as docs/first.md says.
	val, err := auth.Wallet{Path: filepath.Join(dir, "data", "wallets"), Name: "validator", Hotkey: "default"}.HotkeyAddress()
	if err != nil {
		t.Fatal(err)
	}
	if _, graph, said := w.printing("ledger", "metagraph", "--netuid", "2", "--jq", `.neurons[] | select(.validator_permit) | .hotkey`); !strings.Contains(graph, val) {
		t.Errorf("agon serve gave the wallet validator (%s) no permit in demo-claim: %s%s", val, graph, said)
	}
	for _, k := range []string{"claim", "pack"} {
		must("agent", "new", k, "./"+k)
	}
	must("arena", "new", "coding", "./mine.toml")
	write("other.toml", strings.ReplaceAll(read(t, "mine.toml"), `sets = [`, `sets = ["nosuch", `))
	write("kind.toml", regexp.MustCompile(`(?m)^kind = .*$`).ReplaceAllString(read(t, "mine.toml"), `kind = "nosuch"`))

	image := rootfstest.Layout(t, map[string]string{"f": ""}, nil)

	for _, c := range []struct {
		name string
		args string
		// fill puts what a person knows in place of words such as ARENA.
		fill map[string]string
		// then is the command as it is typed after reading the fix; each word that is new
		// must be in the fix. "": the fix names commands, and args are typed again after them.
		then string
		// same: args fail as before, for the fix only says where to look.
		same bool
		env  map[string]string
	}{
		{name: "no key", args: "submission submit claim/agent.py --arena demo-claim"},
		{name: "not registered", args: "submission submit claim/agent.py --arena demo-claim"},
		{name: "licence", args: "submission submit claim/agent.py --arena demo-claim --licence GPL-3.0", then: "submission submit claim/agent.py --arena demo-claim --licence MIT"},
		{name: "wait", args: "submission submit claim/agent.py --arena demo-clai --wait 5", then: "submission submit claim/agent.py --arena demo-clai --wait=5m"},
		{name: "arena of a submission", args: "submission submit claim/agent.py --arena demo-clai", then: "submission submit claim/agent.py --arena demo-claim"},
		{name: "which arena", args: "submission submit claim/agent.py", then: "submission submit claim/agent.py --arena demo-claim"},
		{name: "which subnet", args: "ledger register", then: "ledger register --netuid 1"},
		{name: "whose subnet", args: "ledger register", then: "ledger register --arena demo-claim"},
		{name: "arena", args: "board demo-clam", then: "board demo-claim"},
		{name: "unknown arena", args: "run list --arena nope", same: true},
		{name: "unknown run", args: "run view zzzzzzzz", same: true},
		{name: "unknown submission", args: "submission view zzzzzzzz", same: true},
		{name: "no run", args: "run view", same: true},
		{name: "no submission", args: "submission view", same: true},
		{name: "no rule", args: "calc", same: true},
		{name: "unknown rule", args: "calc nope", same: true},
		{name: "command", args: "boar", then: "board"},
		{name: "flag", args: "board --bogus", same: true},
		{name: "miner", args: "submission list --miner me", then: "submission list --mine"},
		{name: "a pack's file", args: "pack submit pack/pack.json", fill: map[string]string{"ARENA": "demo-pack"}, same: true},
		{name: "no file", args: "try nofile.py --arena demo-coding", fill: map[string]string{"KIND": "coding", "DIR": "./new"}, same: true},
		{name: "a kind without template", args: "agent new nosuch ./x", then: "agent new claim ./x"},
		{name: "a kind that a command begins", args: "agent new research ./x", fill: map[string]string{"TASK": "sortnet", "DIR": "./begun"}, same: true},
		{name: "an agent that is there", args: "agent new claim ./claim", then: "agent new claim ./another"},
		{name: "research task", args: "research claim nope", same: true},
		{name: "the operator's wallet", args: "operator pause demo-claim --wallet.name operator", then: "operator pause demo-claim --wallet.name operator --wallet.path " + filepath.Join(dir, "data", "wallets")},
		{name: "not the operator", args: "operator pause demo-claim", then: "operator pause demo-claim --wallet.name operator --wallet.path data/wallets"},
		{name: "paused", args: "operator cancel x --wallet.name operator --wallet.path data/wallets", then: "operator cancel x --wallet.name operator --wallet.path data/wallets --reason why"},
		{name: "key", args: "key new", then: "key new other"},
		{name: "arena file", args: "arena new coding mine.toml", then: "arena new coding another.toml"},
		{name: "set of an arena", args: "arena check other.toml", then: "arena check mine.toml"},
		{name: "kind of an arena", args: "arena check kind.toml", then: "arena check mine.toml"},
		{name: "task of a try", args: "try claim/agent.py --arena demo-claim --task nosuch", same: true},
		{name: "no ledger", args: "ledger view --ledger ./lab.db"},
		{name: "unknown subnet", args: "ledger metagraph --netuid 999", fill: map[string]string{"FILE": "./lab.db"}, same: true},
		{name: "weights without a permit", args: "ledger set-weights 0=1 --netuid 2", fill: map[string]string{"N": "2"}, same: true},
		{name: "no benchmark", args: "claim benchmark mine.toml claim/agent.py", same: true},
		{name: "nothing to retune", args: "operator retune demo-claim", same: true},
		{name: "a checkout that is there", args: "research start sortnet ./claim", fill: map[string]string{"DIR": "./work"}, same: true},
		{name: "no image", args: "image export sha256:0123 ./x", fill: map[string]string{"REF": image}, same: true, env: map[string]string{"AGON_CACHE": filepath.Join(dir, "cache")}},
		{name: "no data set", args: "dataset export sha256:012345678901 ./y", fill: map[string]string{"REF": "./mine.toml"}, same: true, env: map[string]string{"AGON_CACHE": filepath.Join(dir, "cache")}},
		{name: "no authority", args: "cert issue box --dir ca", fill: map[string]string{"NAME": "fleet", "DIR": "ca"}},
		{name: "no server", args: "arena list", env: map[string]string{"AGON_URL": "http://127.0.0.1:1"}, then: "arena list --url " + url},
		{name: "setting", args: "board", env: map[string]string{"AGON_URL": "nonsense"}, then: "board --url http://nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.t = t
			before := map[string]string{}
			for k, v := range c.env {
				before[k] = w.env[k]
				w.env[k] = v
			}
			defer func() {
				for k, v := range before {
					w.env[k] = v
				}
			}()
			code, said := w.run(strings.Fields(c.args)...)
			fix := strings.ReplaceAll(fixOf(said), "DATA/", "data/")
			if code == 0 || errorOf(said) == "" || fix == "" {
				t.Fatalf("agon %s: exit %d, no error with a fix: %s", c.args, code, said)
			}
			again := strings.Fields(c.args)
			if c.then != "" {
				again = strings.Fields(c.then)
				for _, word := range again {
					if !slices.Contains(strings.Fields(c.args), word) && !strings.Contains(fix, strings.TrimRight(word, "0123456789m")) &&
						!slices.Contains([]string{"other", "./another", "mine.toml", "--url", "another.toml", "why", url, "demo-claim"}, word) {
						t.Errorf("agon %s: %q: the fix %q does not name %q", c.args, errorOf(said), fix, word)
					}
				}
			} else {
				list := w.commandsOf(fix)
				if len(list) == 0 {
					t.Fatalf("agon %s: the fix %q names no command", c.args, fix)
				}
				for _, line := range list {
					for from, to := range c.fill {
						line = regexp.MustCompile(`\b`+from+`\b`).ReplaceAllString(line, to)
					}
					w.ran[path(t, line)] = true
					if code, said := w.run(strings.Fields(line)[1:]...); code != 0 && !strings.Contains(said, "not registered") {
						t.Errorf("agon %s: its fix `%s` leads into the next error: %s", c.args, line, said)
					}
				}
			}
			if c.same {
				return
			}
			if code, now := w.run(again...); code != 0 && errorOf(now) == errorOf(said) {
				t.Errorf("agon %s: after its fix %q it fails as before: %s", c.args, fix, now)
			}
		})
	}
	w.t = t
	every(t, all, w.ran)
}

// every checks that each command that some fix in the source names was run by
// the cases above, or is one that cannot be run here.
func every(t *testing.T, all map[string][]string, ran map[string]bool) {
	t.Helper()
	excused := map[string]string{
		"agon":                    "prose",
		"agon up":                 "it plays; the tests of the demo run it",
		"agon try":                "needs a box; the tests of try run it",
		"agon key agent":          "serves until Ctrl-C; its own tests run it",
		"agon doctor":             "probes the machine's boxes; its own tests run it",
		"agon setup":              "fetches; its own tests run it",
		"agon supervise":          "it stays; its own tests run it",
		"agon export":             "needs a run that is played; the tests of bundles run it",
		"agon run view":           "needs a run that is played",
		"agon run trace":          "needs a run that is played",
		"agon distill":            "the blocks of docs run its --dry-run",
		"agon operator fund":      "needs an arena that takes money; the tests of purses book by the same route",
		"agon submission view":    "looks at what a hostile server sent",
		"agon corpus build":       "needs runs that are played",
		"agon corpus release":     "needs runs that are played",
		"agon corpus stats":       "needs a corpus",
		"agon corpus audit-model": "needs a model",
		"agon corpus mix":         "needs a corpus; the tests of mixing run it",
		"agon corpus verify":      "needs a corpus",
		"agon shop index":         "needs a catalogue",
		"agon task check":         "needs a box",
		"agon task preflight":     "needs a box",
		"agon judge calibrate":    "its --help",
		"agon judge rescore":      "needs plays that are stored",
		"agon image build":        "its --help",
		"agon incentive simulate": "its --help",
		"agon pack check":         "needs a pack that is refused; the scripts of packs run it",
		"agon pack build":         "the scripts of packs run it",
		"agon pack batch":         "needs a box",
		"agon pack status":        "needs a commitment on a chain",
		"agon log checkpoint":     "the scripts of the log run it",
		"agon web login":          "needs the server's own wallet; the tests of roles run it",
		"agon validator":          "it plays until it is stopped; the tests of roles run it",
		"agon validator standing": "needs judgings",
		"agon ledger fund":        "its fix is prose: who gives how much",
		"agon ledger metagraph":   "a refusal of the ledger that no case here brings about",
		"agon ledger epoch":       "as the metagraph",
	}
	for at, list := range all {
		for _, m := range list {
			w := &walker{t: t}
			for _, x := range w.commandsOf(m) {
				for _, line := range choices(x) {
					if strings.Contains(line, "…") || strings.HasPrefix(line, "agon X") || checkCommand(t, line) != "" {
						continue
					}
					if p := path(t, line); !ran[p] && excused[p] == "" {
						t.Errorf("%s: the fix %q names `%s`, which no case runs", at, m, p)
						excused[p] = "said once"
					}
				}
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
