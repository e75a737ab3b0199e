package wire

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/tools"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

const feedID = "6ba7b811-9dad-11d1-80b4-00c04fd430c9"

// oneRepo knows one commit of one repository.
type oneRepo struct{}

func (oneRepo) Name() string { return "one" }

func (oneRepo) SearchRepo(_ context.Context, q tools.RepoQuery) ([]tools.RepoHit, error) {
	if !strings.HasSuffix(q.URL, "/known") {
		return nil, &tools.Failure{Class: "not_found", Own: true}
	}
	score, ex := -1.5, "about "+q.Query
	return []tools.RepoHit{{Path: "a.md", URL: q.URL + "/a.md", BM25: &score, Excerpt: &ex}}, nil
}

func (oneRepo) GetFile(_ context.Context, q tools.FileQuery) (*tools.RepoFile, error) {
	switch {
	case strings.HasSuffix(q.URL, "/slow"):
		return nil, &tools.Failure{Class: "timeout"}
	case strings.HasSuffix(q.URL, "/down"):
		return nil, &tools.Failure{Class: "server"}
	case q.Path != "a.md":
		return nil, &tools.Failure{Class: "not_found", Own: true}
	}
	return &tools.RepoFile{Path: q.Path, URL: q.URL + "/a.md", Text: fmt.Sprintf("lines %d to %d", q.Start, q.End)}, nil
}

// searching is a world whose platform has a feed of two documents and one repository.
func searching(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	docs, err := index.Load(fstest.MapFS{
		"a.md": {Data: []byte("The harbour is 14 metres deep.")},
		"b.md": {Data: []byte("The harbour was dredged to 16 metres.")},
	}, "feed", w.clock)
	if err != nil {
		t.Fatal(err)
	}
	_, w.h, err = NewPlatform(PlatformConfig{
		Arenas: w.api, Arena: "demo-claim", Dir: filepath.Join(t.TempDir(), "wire"), Now: w.clock,
		Verifier: &dialect.Verifier{Dialects: []dialect.Dialect{signin.Caster{}}, Now: w.clock, Replay: replay{}, Members: w.net},
		Claims:   func(context.Context) ([]Claim, error) { return claims(), nil },
		Items:    index.Feeds{feedID: docs}, Repo: oneRepo{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestFeedsAndRepositories(t *testing.T) {
	w := searching(t)
	const sha = "0123456789abcdef0123456789abcdef01234567"
	at := "?repo_url=https%3A%2F%2Fhost.example%2Fx%2Fknown&commit_sha=" + sha
	known := `"repo_url":"https://host.example/x/known","commit_sha":"` + sha + `"`
	other := func(name string) string { return strings.Replace(known, "/known", "/"+name, 1) }
	for _, c := range []struct {
		path, body string
		status     int
		has        string
	}{
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["harbour metres"]}`, 200, `16 metres`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["harbour metres"],"num_hit":1}`, 200, `"hits":[{`},
		// A claim of the past does not see what came after it.
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["dredged"],"enqueue_seq":1}`, 200, `"hits":[]`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":[]}`, 422, `search_queries`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":[" "]}`, 422, `search_queries`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["x"],"num_hit":201}`, 422, `num_hit`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["x"],"enqueue_seq":-1}`, 422, `enqueue_seq`},
		{"/v1/feeds/search", `{"feed_id":"x","search_queries":["x"]}`, 422, `feed_id`},
		{"/v1/feeds/search", `{"feed_id":"6ba7b811-9dad-11d1-80b4-00c04fd430c0","search_queries":["x"]}`, 404, `feed_not_found`},
		{"/v1/feeds/search", `{"feed_id":"` + feedID + `","search_queries":["x"],"more":1}`, 422, `extra_forbidden`},
		{"/v1/feeds/" + feedID + "/tool/search?enqueue_seq=1", `{"query":"harbour"}`, 200, `[{"snippet":"The harbour is 14 metres deep."`},
		{"/v1/feeds/" + feedID + "/tool/search?enqueue_seq=x", `{"query":"harbour"}`, 422, `enqueue_seq`},
		{"/v1/feeds/" + feedID + "/tool/search", `{}`, 422, `query`},
		{"/v1/repo-search/ensure-index", `{` + known + `}`, 200, `"status":"ready"`},
		{"/v1/repo-search/ensure-index", `{` + other("other") + `}`, 404, `repository_not_found`},
		{"/v1/repo-search/search", `{` + known + `,"query":"depth","limit":5}`, 200, `"bm25":-1.5,"excerpt":"about depth"`},
		{"/v1/repo-search/search", `{` + known + `,"query":"depth","limit":51}`, 422, `limit`},
		{"/v1/repo-search/search", `{` + known + `,"query":"depth","path_glob":"["}`, 422, `path_glob`},
		{"/v1/repo-search/search", `{"repo_url":"file:///etc","commit_sha":"` + sha + `","query":"x"}`, 422, `repo_url`},
		{"/v1/repo-search/search", `{"repo_url":"https://host.example/x","commit_sha":"HEAD","query":"x"}`, 422, `commit_sha`},
		{"/v1/repo-search/get-file", `{` + known + `,"path":"a.md","start_line":2,"end_line":3}`, 200, `"text":"lines 2 to 3"`},
		{"/v1/repo-search/get-file", `{` + known + `,"path":"a.md","start_line":3,"end_line":2}`, 422, `end_line`},
		{"/v1/repo-search/get-file", `{` + known + `,"path":"b.md"}`, 404, `repository_not_found`},
		{"/v1/repo-search/get-file", `{` + other("slow") + `,"path":"a.md"}`, 504, `repository_timeout`},
		{"/v1/repo-search/get-file", `{` + other("down") + `,"path":"a.md"}`, 502, `repository_failed`},
		{"/v1/repo-search/tool/search" + at, `{"query":"depth"}`, 200, `[{"snippet":"about depth","uri":"https://host.example/x/known/a.md"}]`},
		{"/v1/repo-search/tool/get-file" + at, `{"query":"a.md"}`, 200, `"snippet":"lines 0 to 0"`},
		{"/v1/repo-search/tool/search", `{"query":"depth"}`, 422, `repo_url`},
	} {
		status, _, raw := send(t, w.h, w.keys['v'], "POST", c.path, c.body)
		if status != c.status || !strings.Contains(string(raw), c.has) || !json.Valid(raw) {
			t.Errorf("%s %s: %d %s, want %d with %s", c.path, c.body, status, raw, c.status, c.has)
		}
	}
	// Validators only; and a platform without a back end says so.
	if status, _, raw := send(t, w.h, w.keys['a'], "POST", "/v1/feeds/search", `{}`); status != 403 {
		t.Errorf("a miner searched: %d %s", status, raw)
	}
	if status, _, raw := send(t, w.h, nil, "POST", "/v1/repo-search/search", `{}`); status != 401 {
		t.Errorf("anybody searched: %d %s", status, raw)
	}
	bare := newWorld(t)
	if status, out, _ := send(t, bare.h, bare.keys['v'], "POST", "/v1/feeds/search", `{}`); status != 503 || out["error_code"] != "feed_unavailable" {
		t.Errorf("no feed: %d %v", status, out)
	}
}
