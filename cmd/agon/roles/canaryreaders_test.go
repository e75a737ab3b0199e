package roles_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/kit"
)

// reader is who reads, and what it may find: trees of hidden tasks (a validator of
// the arena), or everything of runs on them too (who played it, the operator).
type reader struct {
	name  string
	party *kit.Party // nil: the public
	may   func(kind string) bool
	// only is the arena that it is somebody in, and reads. Elsewhere it is a stranger
	// who signs, as a rival is, who reads everything. Empty: it reads all arenas.
	only string
	// pages ends the reading of pages, and shortens that of commands, where a reader
	// may see all: there is nothing to find but that the walk sees. 0: everything.
	pages int
}

// concerns reports whether r reads a path or a command.
func (w *walk) concerns(r reader, path string) bool {
	if r.only == "" {
		return true
	}
	for _, part := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/?=&. ", c) }) {
		if k := w.kindOf[part]; k != "" && k != r.only {
			return false
		}
	}
	return true
}

func (w *walk) readers(list []smuggler) []reader {
	none := func(string) bool { return false }
	all := func(string) bool { return true }
	out := []reader{{name: "public", may: none}, {name: "operator", party: w.parties["operator"], may: all, pages: 120}, {name: "validator", party: w.parties["validator"], may: all, pages: 120}}
	for i, s := range list {
		out = append(out, reader{name: "miner-" + s.kind, party: w.parties["miner-"+s.kind], may: none, only: s.kind})
		if i == 0 { // more than one arena: who validates in one is a stranger in the others
			out = append(out, reader{name: "elsewhere-" + s.kind, party: w.parties["elsewhere-"+s.kind], may: func(kind string) bool { return kind == s.kind }})
			out = append(out, reader{name: "rival-" + s.kind, party: w.parties["rival-"+s.kind], may: none})
		}
	}
	if w.few { // who may read hidden tasks in one arena and who is a stranger there, signed or not
		out = slices.DeleteFunc(out, func(r reader) bool { return r.name == "validator" || strings.HasPrefix(r.name, "elsewhere-") })
	}
	return out
}

// as is the walk in a subtest, with browsers of its own.
func (w *walk) as(t *testing.T) *walk {
	c := *w
	c.t, c.browsers = t, map[string]*http.Client{}
	return &c
}

// get reads a path as somebody, a page or the API.
func (w *walk) get(r reader, path string, page bool) (int, []byte) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := http.DefaultClient
	if page {
		req.Header.Set("Accept", "text/html")
		c = w.browser(r)
	} else if r.party != nil {
		if err := auth.SignRequest(req, nil, r.party.Hotkey, w.audience, time.Now()); err != nil {
			w.t.Fatal(err)
		}
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		w.t.Fatalf("%s as %s: %v", path, r.name, err)
	}
	if resp.StatusCode >= 500 {
		w.t.Errorf("%s as %s: %d %.300s", path, r.name, resp.StatusCode, b)
	}
	for k, v := range resp.Header { // headers are part of an answer
		b = append(b, "\n"+k+": "+strings.Join(v, " ")...)
	}
	return resp.StatusCode, b
}

// browser is signed in as r.
func (w *walk) browser(r reader) *http.Client {
	w.t.Helper()
	if c := w.browsers[r.name]; c != nil {
		return c
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	w.browsers[r.name] = c
	if r.party == nil {
		return c
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+"/web/sessions", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := auth.SignRequest(req, nil, r.party.Hotkey, w.audience, time.Now()); err != nil {
		w.t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	var link struct{ Path string }
	if err := json.NewDecoder(resp.Body).Decode(&link); err != nil {
		w.t.Fatal(err)
	}
	_, code, _ := strings.Cut(link.Path, "code=")
	in, err := c.PostForm(w.url+"/signin", url.Values{"code": {code}})
	if err != nil {
		w.t.Fatal(err)
	}
	in.Body.Close()
	if in.StatusCode != http.StatusSeeOther {
		w.t.Fatalf("sign in as %s: %d", r.name, in.StatusCode)
	}
	return c
}

// hidden are the digests of hidden trees and of their files, of some kinds.
func (w *walk) hidden(of func(kind string) bool) []agon.Digest {
	var out []agon.Digest
	for _, kind := range slices.Sorted(maps.Keys(w.digests)) {
		if of(kind) {
			out = append(out, w.digests[kind]...)
		}
	}
	return slices.DeleteFunc(out, func(d agon.Digest) bool { return w.open[w.taskOf[d]] })
}

// shown reports whether the task of a word has become public.
func (w *walk) shown(word string) bool {
	key, _, _ := strings.Cut(w.words[word], ": ")
	return w.open[key]
}

// gather finds what fills the holes of paths: the ids of all there is.
func (w *walk) gather() {
	w.t.Helper()
	op := w.client(w.parties["operator"].Hotkey)
	ctx := w.t.Context()
	subs, err := op.Submissions(ctx, "", "", client.ListOptions{Limit: 100})
	if err != nil {
		w.t.Fatal(err)
	}
	digests := w.hidden(func(string) bool { return true })
	for _, s := range subs.Items {
		w.values["submissions"] = append(w.values["submissions"], s.ID)
		w.values["coldkey"] = append(w.values["coldkey"], s.Coldkey)
		w.kindOf[s.ID] = w.kindOf[s.Arena]
		digests = append(digests, s.Digest)
		runs, err := op.Runs(ctx, "", s.ID, "", client.ListOptions{Limit: 100})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range runs.Items {
			w.values["runs"] = append(w.values["runs"], r.RunSpec.Run)
			w.kindOf[r.RunSpec.Run] = w.kindOf[s.Arena]
			full, err := op.Run(ctx, r.RunSpec.Run)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, at := range full.List {
				if at.Evidence != "" {
					digests = append(digests, at.Evidence)
				}
			}
		}
	}
	// What trees list, and what events name.
	any64 := regexp.MustCompile(`sha256:[0-9a-f]{64}`)
	seen := map[string]bool{}
	for len(digests) > 0 {
		d := digests[0]
		digests = digests[1:]
		if seen[string(d)] {
			continue
		}
		seen[string(d)] = true
		b, err := op.Blob(ctx, d)
		if client.IsCode(err, "not_found") {
			continue // hashed, not stored
		}
		if err != nil {
			w.t.Fatalf("blob %s: %v", d, err)
		}
		w.values["digest"] = append(w.values["digest"], string(d))
		for _, m := range any64.FindAllString(string(b[:min(len(b), 1<<20)]), 1000) {
			digests = append(digests, agon.Digest(m))
		}
	}
	for _, p := range w.parties {
		w.values["hotkey"] = append(w.values["hotkey"], p.Hotkey.SS58())
	}
	slices.Sort(w.values["hotkey"])
}

var hole = regexp.MustCompile(`\{([a-z_]+)\}`)

// fill makes the paths of a pattern; vals returns what a hole may hold.
func fill(pattern string, vals func(before, name string) []string) []string {
	list := []string{pattern}
	for {
		at := hole.FindStringSubmatchIndex(list[0])
		if at == nil {
			return list
		}
		var next []string
		for _, l := range list {
			m := hole.FindStringSubmatchIndex(l)
			for _, v := range vals(l[:m[0]], l[m[2]:m[3]]) {
				next = append(next, l[:m[0]]+url.PathEscape(v)+l[m[1]:])
			}
		}
		if list = next; len(list) == 0 {
			return nil
		}
	}
}

// v1 are all reads of the document, with every value that fits.
func (w *walk) v1() []string {
	w.t.Helper()
	b, err := os.ReadFile("../../../docs/openapi.json")
	if err != nil {
		w.t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name, In string
				Required bool
				Schema   struct{ Enum []string }
			}
		}
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for at, ops := range doc.Paths {
		op, ok := ops["get"]
		if !ok {
			continue
		}
		list := fill(at, func(before, name string) []string {
			v := w.values[name]
			if name == "id" {
				v = w.values[filepath.Base(before)]
			}
			if len(v) == 0 {
				w.t.Fatalf("%s: nothing fills %s: teach the walk", at, name)
			}
			return v
		})
		for _, p := range op.Parameters {
			if p.In != "query" || !p.Required && len(p.Schema.Enum) == 0 && p.Name != "limit" && p.Name != "attempt" && p.Name != "size" {
				continue
			}
			var vals []string
			switch {
			case len(p.Schema.Enum) > 0:
				vals = p.Schema.Enum
			case p.Name == "limit":
				vals = []string{"200"}
			case p.Name == "attempt" || p.Name == "size":
				vals = []string{"1"}
			case p.Name == "id": // of the log
				vals = slices.Concat(w.values["submissions"], w.values["arena"])
				for _, r := range w.values["runs"] {
					vals = append(vals, r, r+"/1")
				}
				for _, a := range w.values["arena"] {
					vals = append(vals, a+"/0", a+"/1")
				}
			default:
				w.t.Fatalf("%s: nothing fills %s: teach the walk", at, p.Name)
			}
			var next []string
			for _, l := range list {
				if !p.Required {
					next = append(next, l)
				}
				for _, v := range vals {
					sep := "?"
					if strings.Contains(l, "?") {
						sep = "&"
					}
					next = append(next, l+sep+p.Name+"="+url.QueryEscape(v))
				}
			}
			list = next
		}
		out = append(out, list...)
	}
	slices.Sort(out)
	return out
}
