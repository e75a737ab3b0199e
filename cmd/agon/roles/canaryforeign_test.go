package roles_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/cmd/agon/app"
	"github.com/agon-arena/agon/kinds"
	codewire "github.com/agon-arena/agon/kinds/coding/wire"
	packwire "github.com/agon-arena/agon/kinds/pack/wire"
	"github.com/agon-arena/agon/kinds/research/miner"
	shopwire "github.com/agon-arena/agon/kinds/shopping/wire"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/iostreams"
)

// links calls f with what the attributes of a page link on this server.
func links(body []byte, f func(string)) {
	for {
		i := bytes.Index(body, []byte(`="/`))
		if i < 0 {
			return
		}
		name := body[max(0, i-24):i]
		name = name[bytes.LastIndexAny(name, " \n\t<")+1:]
		body = body[i+2:]
		end := bytes.IndexAny(body, "\"#")
		if end < 0 {
			return
		}
		switch n := string(name); {
		case n == "href", n == "src", n == "action", strings.HasPrefix(n, "data-"):
			f(html.UnescapeString(string(body[:end])))
		}
	}
}

// crawl reads every page that a page links, as r.
func (w *walk) crawl(r reader, visit func(path string, body []byte)) int {
	w.t.Helper()
	todo, seen := []string{"/", "/corpus", "/operator", "/proof"}, map[string]bool{}
	for _, a := range w.values["arena"] {
		todo = append(todo, "/arenas/"+a)
	}
	for _, x := range w.values["submissions"] {
		todo = append(todo, "/submissions/"+x)
	}
	for _, x := range w.values["runs"] {
		todo = append(todo, "/runs/"+x, "/runs/"+x+"/live")
	}
	ok := 0
	for len(todo) > 0 {
		p := todo[0]
		todo = todo[1:]
		if seen[p] || !w.concerns(r, p) || p == "/live" || strings.HasPrefix(p, "/live?") || strings.HasPrefix(p, "/static/") || strings.HasPrefix(p, "/signin") || strings.HasPrefix(p, "/signout") {
			continue
		}
		seen[p] = true
		status, body := w.get(r, p, true)
		if status == http.StatusOK {
			ok++
		}
		visit(p, body)
		if len(seen) == r.pages {
			break
		}
		links(body, func(q string) {
			if !seen[q] {
				todo = append(todo, q)
			}
		})
		if len(seen) > 3000 {
			w.t.Fatalf("%s: the pages have no end", r.name)
		}
	}
	return ok
}

// foreign reads all that the kinds' own protocols have, unsigned, and returns what
// is worth reading again by somebody.
func (w *walk) foreign(list []smuggler, visit func(path string, body []byte)) []string {
	w.t.Helper()
	played := func(kind string) bool {
		return slices.ContainsFunc(list, func(s smuggler) bool { return s.kind == kind })
	}
	var patterns []string
	of := map[string]string{} // kind of a pattern
	add := func(kind string, list ...string) {
		for _, p := range list {
			patterns, of[p] = append(patterns, p), kind
		}
	}
	if played("pack") {
		for _, r := range packwire.Routes() {
			add("pack", r.Pattern)
		}
	}
	if played("coding") {
		add("coding", codewire.Routes()...)
	}
	if played("shopping") {
		for _, r := range shopwire.Routes() {
			add("shopping", r.Pattern)
		}
	}
	if played("claim") {
		for _, file := range []string{"platform.go", "search.go"} {
			b, err := os.ReadFile("../../../kinds/claim/wire/" + file)
			if err != nil && file == "platform.go" {
				w.t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"(GET /[^"]+)"`).FindAllSubmatch(b, -1) {
				add("claim", string(m[1]))
			}
		}
	}
	if played("research") {
		_, b := w.get(reader{name: "public"}, "/api/v1/openapi.json", false)
		body, _, _ := bytes.Cut(b, []byte("\n}\n"))
		var doc struct{ Paths map[string]map[string]any }
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&doc); err != nil || len(doc.Paths) < 20 {
			w.t.Fatalf("the coordinator's document: %v, %d paths", err, len(doc.Paths))
		}
		for at, ops := range doc.Paths {
			if ops["get"] != nil {
				add("research", "GET "+at)
			}
		}
	}
	slices.Sort(patterns)
	// Holes take what shorter paths answered with, besides what is known.
	ids := slices.Concat(w.values["submissions"], w.values["runs"], w.values["hotkey"], []string{"compress", "current"})
	for _, d := range w.hidden(func(string) bool { return true }) {
		ids = append(ids, d.Hex())
	}
	var out []string
	slices.SortStableFunc(patterns, func(a, b string) int { return strings.Count(a, "{") - strings.Count(b, "{") })
	for _, p := range patterns {
		path, ok := strings.CutPrefix(p, "GET ")
		if !ok {
			continue
		}
		first := ids
		n := 0
		paths := fill(path, func(before, name string) []string {
			n++
			if strings.Count(path, "{") > 1 && n > 1 { // not every pair: ids that belong together come from one answer
				return ids[:min(len(ids), 60)]
			}
			return first[:min(len(first), 200)]
		})
		for _, x := range paths[:min(len(paths), 2500)] {
			status, b := w.get(reader{name: "public"}, x, false)
			visit(x, b)
			if status == http.StatusOK || status == http.StatusUnauthorized || status == http.StatusForbidden {
				out = append(out, x)
				w.protocol[x] = of[p]
			}
			if status == http.StatusOK {
				identifiers(b, func(id string) {
					if !slices.Contains(ids, id) {
						ids = append(ids, id)
					}
				})
			}
		}
	}
	return out
}

var identifier = regexp.MustCompile(`^(?:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-z]{26}|[0-9a-f]{64})$`)

// identifiers calls f with the strings in b that look like an id or a digest.
func identifiers(b []byte, f func(string)) {
	for {
		i := bytes.IndexByte(b, '"')
		if i < 0 {
			return
		}
		b = b[i+1:]
		if i = bytes.IndexByte(b, '"'); (i == 26 || i == 36 || i == 64) && identifier.Match(b[:i]) {
			f(string(b[:i]))
		}
	}
}

// tools calls every tool of MCP with every value, agents' text included.
func (w *walk) tools(visit func(path string, body []byte)) {
	w.t.Helper()
	ctx := w.t.Context()
	s, err := sdk.NewClient(&sdk.Implementation{Name: "walk", Version: "1"}, nil).Connect(ctx, &sdk.StreamableClientTransport{Endpoint: w.url + "/mcp", DisableStandaloneSSE: true}, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	defer s.Close()
	list, err := s.ListTools(ctx, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		b, err := json.Marshal(tool.InputSchema)
		if err != nil {
			w.t.Fatal(err)
		}
		var in struct {
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(b, &in); err != nil {
			w.t.Fatal(err)
		}
		calls := []map[string]any{{}}
		for _, name := range in.Required {
			vals := map[string][]string{"arena": w.values["arena"], "submission": w.values["submissions"], "run": w.values["runs"], "id": w.values["submissions"]}[name]
			if name == "id" && (strings.Contains(tool.Name, "run") || strings.Contains(tool.Name, "receipts")) {
				vals = w.values["runs"]
			}
			if len(vals) == 0 {
				w.t.Fatalf("tool %s: nothing fills %s: teach the walk", tool.Name, name)
			}
			var next []map[string]any
			for _, c := range calls {
				for _, v := range vals {
					more := maps.Clone(c)
					more[name] = v
					next = append(next, more)
				}
			}
			calls = next
		}
		for _, c := range calls {
			if _, ok := in.Properties["include_agent_text"]; ok {
				c["include_agent_text"] = true
			}
			r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: tool.Name, Arguments: c})
			if err != nil {
				w.t.Fatal(err)
			}
			out, err := json.Marshal(r)
			if err != nil {
				w.t.Fatal(err)
			}
			visit(fmt.Sprintf("mcp %s %v", tool.Name, c), out)
		}
	}
}

// commands runs what reads a server on the command line, as r.
func (w *walk) commands(r reader, visit func(line string, body []byte)) {
	w.t.Helper()
	var lines [][]string
	add := func(args ...string) {
		if w.concerns(r, strings.Join(args, " ")) {
			lines = append(lines, args)
		}
	}
	for _, list := range []string{"arena list", "submission list", "run list", "operator log", "validator standing", "ledger view --netuid 20", "log checkpoint", "log check"} {
		add(strings.Fields(list)...)
	}
	for _, a := range w.values["arena"] {
		add("arena", "view", a)
		add("board", a)
		add("run", "list", "--arena", a)
	}
	into := filepath.Join(w.dir, "out-"+r.name)
	n := 0
	out := func(name string) string {
		n++
		return filepath.Join(into, fmt.Sprint(n, name))
	}
	for _, x := range w.values["submissions"] {
		add("submission", "view", x)
		add("submission", "download", x, "--dir", out("files"))
		add("export", x, "--bundle", out("bundle.json"))
		add("export", x, "--in-toto", out("toto.json"))
		add("verify", x, "--no-judge")
		add("log", "inclusion", x)
	}
	for _, x := range w.values["runs"] {
		add("run", "view", x)
		add("run", "logs", x)
		add("run", "trace", x)
		add("run", "trace", x, "--format", "atif")
		add("run", "watch", x)
		add("export", x, "--bundle", out("bundle.json"))
		add("verify", x, "--no-judge")
		add("log", "inclusion", x+"/1")
	}
	add("corpus", "build", "--out", out("corpus"))
	if err := os.MkdirAll(into, 0o700); err != nil {
		w.t.Fatal(err)
	}
	if r.pages > 0 {
		lines = lines[:min(len(lines), 60)]
	}
	kits := kinds.All()
	bad, forms := map[string]bool{}, []string{"json"}
	if r.party == nil {
		forms = append(forms, "table")
	}
	for _, args := range lines {
		for _, form := range forms {
			s, out, errOut := iostreams.Test("")
			home := filepath.Join(w.dir, "home-"+r.name)
			if err := os.MkdirAll(home, 0o700); err != nil {
				w.t.Fatal(err)
			}
			a := &cli.App{
				IO: s, Now: time.Now, Services: app.Services(kits), Extras: kits.Commands(),
				Env: config.Env{Getenv: func(string) string { return "" }, Dir: home, Home: home, UserCacheDir: home},
			}
			full := append(slices.Clone(args), "--url", w.url, "-o", form)
			if r.party != nil {
				full = append(full, "--wallet.path", filepath.Join(w.dir, "data", "wallets"), "--wallet.name", r.name)
			}
			code := a.Main(w.t.Context(), full)
			if code == cli.CodeUsage {
				bad[strings.Join(full, " ")+": "+errOut.String()] = true
			}
			visit("agon "+strings.Join(args, " "), []byte(out.String()+errOut.String()))
		}
	}
	for b := range bad {
		w.t.Errorf("a command of the walk is wrong: %s", b)
	}
	err := filepath.WalkDir(into, func(p string, d os.DirEntry, err error) error { // what they wrote
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		visit("file "+strings.TrimPrefix(p, into), b)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// TestCanaryWalk plays every kind by agents that carry out what they see, and
// reads everything as everybody. AGON_WALK=KIND walks one kind.
func TestCanaryWalk(t *testing.T) {
	list := smugglers()
	if only := os.Getenv("AGON_WALK"); only != "" {
		list = slices.DeleteFunc(list, func(s smuggler) bool { return s.kind != only })
	}
	w := play(t, list)
	w.readAll(list)
	w.quiet()
}

// quiet checks what went out by itself: the server's log, the stream of changes, the webhook.
func (w *walk) quiet() {
	w.t.Helper()
	if x := canariesIn(w.log.Bytes()); len(x) > 0 {
		w.t.Errorf("the server's log holds %v", x)
	}
	if b := w.live.Bytes(); len(b) == 0 || len(canariesIn(b)) > 0 {
		w.t.Errorf("the stream of changes has %d bytes and holds %v", len(b), canariesIn(b))
	}
	if x := canariesIn(w.webhooks.Bytes()); len(x) > 0 {
		w.t.Errorf("a webhook received %v", x)
	}
}

// readAll reads everything as everybody.
func (w *walk) readAll(list []smuggler) {
	t := w.t
	t.Helper()
	w.gather()
	public := map[string][]string{}
	v1, foreign := w.v1(), w.foreign(list, func(path string, body []byte) {
		for _, x := range canariesIn(append([]byte(path+"\n"), body...)) {
			if !w.shown(x) {
				public[x] = append(public[x], path)
			}
		}
	})
	for x, at := range public {
		t.Errorf("%s (%s) is shown by %d of the foreign protocols: %v", x, w.words[x], len(at), at[:min(len(at), 6)])
	}
	if len(v1) < 60 {
		t.Errorf("only %d paths of /v1", len(v1))
	}
	t.Logf("%d paths of /v1, %d of foreign protocols, %d words", len(v1), len(foreign), len(w.words))
	t.Run("readers", func(t *testing.T) {
		for _, r := range w.readers(list) {
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				w.as(t).readAs(r, list, v1, foreign)
			})
		}
	})
}

// readAs reads everything as r, and says which words r may not read.
func (w *walk) readAs(r reader, list []smuggler, v1, foreign []string) {
	t := w.t
	t.Helper()
	found := map[string]map[string]bool{} // by kind
	where := map[string][]string{}
	public := 0
	visit := func(path string, body []byte) {
		for _, x := range canariesIn(append([]byte(path+"\n"), body...)) {
			kind := strings.TrimRight(strings.TrimPrefix(x, "zqcanary"), "0123456789")
			if found[kind] == nil {
				found[kind] = map[string]bool{}
			}
			found[kind][x] = true
			switch {
			case w.shown(x):
				public++
			case !r.may(kind):
				where[x] = append(where[x], path)
			}
		}
	}
	ok := 0
	for _, p := range slices.Concat(v1, []string{"/openapi.json", "/metrics", "/log/checkpoint", "/log/tile/0/000", "/log/tile/entries/000"}) {
		if !w.concerns(r, p) {
			continue
		}
		status, body := w.get(r, p, false)
		if status == http.StatusOK {
			ok++
		}
		visit(p, body)
	}
	pages := w.crawl(r, visit)
	if r.party != nil {
		for _, p := range foreign {
			if !w.concerns(r, p) || r.only != "" && w.protocol[p] != r.only {
				continue
			}
			_, body := w.get(r, p, false)
			visit(p, body)
			if strings.HasPrefix(p, "/api/v1/") { // as a miner of the coordinator signs
				c := miner.Client{URL: w.url, Key: r.party.Hotkey}
				body, err := c.Do(t.Context(), http.MethodGet, p, nil, nil, true)
				visit(p, append(body, fmt.Sprint(err)...))
			}
		}
	}
	w.commands(r, visit)
	if r.party == nil {
		w.tools(visit)
	}
	if ok < 30 || pages < 15 {
		t.Errorf("only %d routes and %d pages answered", ok, pages)
	}
	for x, at := range where {
		slices.Sort(at)
		at = slices.Compact(at)
		t.Errorf("%s (%s) is shown by %d: %v", x, w.words[x], len(at), at[:min(len(at), 6)])
	}
	for _, s := range list {
		if r.may(s.kind) && len(found[s.kind]) < s.seen {
			t.Errorf("%s: only %d words are found, which may be read: the walk sees nothing", s.kind, len(found[s.kind]))
		}
	}
	if len(w.open) > 0 && public == 0 {
		t.Error("nothing of the sets that are public is found")
	}
	w.alike(r, w.hidden(func(kind string) bool { return !r.may(kind) }))
}

// alike checks that what is hidden and what is not there are answered alike.
func (w *walk) alike(r reader, digests []agon.Digest) {
	w.t.Helper()
	for i, d := range digests {
		other := agon.Sum(fmt.Appendf(nil, "nothing has this %d", i))
		for _, p := range []string{"/v1/blobs/%s", "/v1/submissions/%s", "/v1/runs/%s", "/v1/log/proof?type=submission&id=%s", "/submissions/%s", "/runs/%s"} {
			page := !strings.HasPrefix(p, "/v1")
			s1, b1 := w.get(r, fmt.Sprintf(p, d), page)
			s2, b2 := w.get(r, fmt.Sprintf(p, other), page)
			if s1 != s2 || len(b1) != len(b2) {
				w.t.Errorf("%s: what is hidden is answered %d with %d bytes, what is not there %d with %d bytes", fmt.Sprintf(p, d), s1, len(b1), s2, len(b2))
			}
		}
	}
}
