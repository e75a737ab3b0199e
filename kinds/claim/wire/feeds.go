package wire

import (
	"context"
	"errors"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/engine/tools"
)

// What a platform searches for its validators: the feeds that claims were made
// from, and repositories. The same back ends answer scripts at the tool host.

const (
	maxQuery    = 2000 // code points of one query
	maxQueries  = 20
	maxHits     = 200
	maxRepoHits = 50
	maxLines    = 1 << 30
	anySeq      = 1 << 53 // beyond every item
)

func (p *Platform) searchRoutes(m *http.ServeMux) {
	m.HandleFunc("POST /v1/feeds/search", p.feedSearch)
	m.HandleFunc("POST /v1/feeds/{feed}/tool/search", p.feedTool)
	m.HandleFunc("POST /v1/repo-search/ensure-index", p.repoIndex)
	m.HandleFunc("POST /v1/repo-search/search", p.repoSearch)
	m.HandleFunc("POST /v1/repo-search/get-file", p.repoFile)
	m.HandleFunc("POST /v1/repo-search/tool/search", p.repoTool)
	m.HandleFunc("POST /v1/repo-search/tool/get-file", p.repoFileTool)
}

// asked reads a signed question of a validator into v. ok is false when it has answered.
func (p *Platform) asked(w http.ResponseWriter, r *http.Request, have bool, what string, v any) bool {
	_, body, ok := signed(w, r, p.cfg.Verifier, dialect.Need{Registered: true, Validator: true}, 64<<10)
	if !ok {
		return false
	}
	if !have {
		refuse(w, http.StatusServiceUnavailable, what+"_unavailable", "this platform serves no %s", what)
		return false
	}
	return decode(w, body, true, v)
}

// answer sends what a back end found, or why it could not.
func (p *Platform) answer(w http.ResponseWriter, what string, v any, err error) {
	var f *tools.Failure
	switch {
	case err == nil:
		reply(w, http.StatusOK, v)
	case errors.As(err, &f) && f.Class == "not_found":
		refuse(w, http.StatusNotFound, what+"_not_found", "there is no such %s or file", what)
	case errors.As(err, &f) && f.Own:
		refuse(w, http.StatusUnprocessableEntity, what+"_refused", "this cannot be searched: %s", f.Class)
	case errors.As(err, &f) && f.Class == "timeout", errors.Is(err, context.DeadlineExceeded):
		refuse(w, http.StatusGatewayTimeout, what+"_timeout", "the search took too long")
	default:
		p.cfg.Log.Error("request failed", "what", what, "err", err)
		refuse(w, http.StatusBadGateway, what+"_failed", "the search failed")
	}
}

// goodText checks one query. ok is false when it has answered.
func goodText(w http.ResponseWriter, s, field string) bool {
	if strings.TrimSpace(s) == "" || utf8.RuneCountInString(s) > maxQuery {
		invalid(w, "value_error", "want 1 to "+strconv.Itoa(maxQuery)+" characters", field)
		return false
	}
	return true
}

func between(w http.ResponseWriter, n, low, high int64, field string) bool {
	if n < low || n > high {
		invalid(w, "value_error", "want "+strconv.FormatInt(low, 10)+" to "+strconv.FormatInt(high, 10), field)
		return false
	}
	return true
}

func (p *Platform) feedSearch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Feed    string   `json:"feed_id"`
		Queries []string `json:"search_queries"`
		Num     *int64   `json:"num_hit"`
		Seq     *int64   `json:"enqueue_seq"`
	}
	if !p.asked(w, r, p.cfg.Items != nil, "feed", &in) {
		return
	}
	id, err := uuid.Parse(in.Feed)
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "feed_id")
		return
	}
	q := tools.ItemQuery{FeedID: id.String(), EnqueueSeq: anySeq, Queries: in.Queries, Num: 20}
	if !between(w, int64(len(in.Queries)), 1, maxQueries, "search_queries") {
		return
	}
	for _, s := range in.Queries {
		if !goodText(w, s, "search_queries") {
			return
		}
	}
	if in.Num != nil {
		if !between(w, *in.Num, 1, maxHits, "num_hit") {
			return
		}
		q.Num = int(*in.Num)
	}
	if in.Seq != nil {
		if !between(w, *in.Seq, 0, anySeq, "enqueue_seq") {
			return
		}
		q.EnqueueSeq = *in.Seq
	}
	hits, err := p.cfg.Items.Items(r.Context(), q)
	p.answer(w, "feed", map[string]any{"hits": append([]tools.Item{}, hits...)}, err)
}

// snippet is what generators ground their claims on.
type snippet struct {
	Snippet string `json:"snippet"`
	URI     string `json:"uri"`
}

type question struct {
	Query string `json:"query"`
}

func (p *Platform) feedTool(w http.ResponseWriter, r *http.Request) {
	var in question
	if !p.asked(w, r, p.cfg.Items != nil, "feed", &in) || !goodText(w, in.Query, "query") {
		return
	}
	id, err := uuid.Parse(r.PathValue("feed"))
	if err != nil {
		invalid(w, "uuid_parsing", "Input should be a valid UUID", "feed_id")
		return
	}
	q := tools.ItemQuery{FeedID: id.String(), EnqueueSeq: anySeq, Queries: []string{in.Query}, Num: 20}
	if s := r.URL.Query().Get("enqueue_seq"); s != "" {
		if q.EnqueueSeq, err = strconv.ParseInt(s, 10, 64); err != nil || q.EnqueueSeq < 0 {
			invalid(w, "int_parsing", "Input should be a valid integer", "enqueue_seq")
			return
		}
	}
	hits, err := p.cfg.Items.Items(r.Context(), q)
	out := []snippet{}
	for _, h := range hits {
		out = append(out, snippet{h.Text, h.URL})
	}
	p.answer(w, "feed", out, err)
}

// repo checks the address of a commit. ok is false when it has answered.
func repo(w http.ResponseWriter, address, commit string) bool {
	if err := tools.CheckRepo(address, commit); err != nil {
		invalid(w, "value_error", err.Error(), "repo_url")
		return false
	}
	return true
}

// repoIndex reads a commit, so that later searches find it ready.
func (p *Platform) repoIndex(w http.ResponseWriter, r *http.Request) {
	var in struct {
		URL    string `json:"repo_url"`
		Commit string `json:"commit_sha"`
	}
	if !p.asked(w, r, p.cfg.Repo != nil, "repository", &in) || !repo(w, in.URL, in.Commit) {
		return
	}
	_, err := p.cfg.Repo.SearchRepo(r.Context(), tools.RepoQuery{URL: in.URL, Commit: in.Commit, Query: "readme", Limit: 1})
	p.answer(w, "repository", map[string]string{"status": "ready", "repo_url": in.URL, "commit_sha": in.Commit}, err)
}

func (p *Platform) repoSearch(w http.ResponseWriter, r *http.Request) {
	var in struct {
		URL    string `json:"repo_url"`
		Commit string `json:"commit_sha"`
		Query  string `json:"query"`
		Glob   string `json:"path_glob"`
		Limit  *int64 `json:"limit"`
	}
	if !p.asked(w, r, p.cfg.Repo != nil, "repository", &in) || !repo(w, in.URL, in.Commit) || !goodText(w, in.Query, "query") {
		return
	}
	q := tools.RepoQuery{URL: in.URL, Commit: in.Commit, Query: in.Query, Glob: in.Glob, Limit: 10}
	if in.Limit != nil {
		if !between(w, *in.Limit, 1, maxRepoHits, "limit") {
			return
		}
		q.Limit = int(*in.Limit)
	}
	if _, err := path.Match(in.Glob, ""); err != nil || len(in.Glob) > 200 {
		invalid(w, "value_error", "want a pattern of at most 200 bytes", "path_glob")
		return
	}
	hits, err := p.cfg.Repo.SearchRepo(r.Context(), q)
	p.answer(w, "repository", map[string]any{"data": append([]tools.RepoHit{}, hits...)}, err)
}

func (p *Platform) repoFile(w http.ResponseWriter, r *http.Request) {
	var in struct {
		URL    string `json:"repo_url"`
		Commit string `json:"commit_sha"`
		Path   string `json:"path"`
		Start  *int64 `json:"start_line"`
		End    *int64 `json:"end_line"`
	}
	if !p.asked(w, r, p.cfg.Repo != nil, "repository", &in) || !repo(w, in.URL, in.Commit) || !goodText(w, in.Path, "path") {
		return
	}
	q := tools.FileQuery{URL: in.URL, Commit: in.Commit, Path: in.Path}
	for _, l := range []struct {
		name string
		from *int64
		to   *int
	}{{"start_line", in.Start, &q.Start}, {"end_line", in.End, &q.End}} {
		if l.from == nil {
			continue
		}
		if !between(w, *l.from, 1, maxLines, l.name) {
			return
		}
		*l.to = int(*l.from)
	}
	if q.End > 0 && q.End < q.Start {
		invalid(w, "value_error", "it is before start_line", "end_line")
		return
	}
	f, err := p.cfg.Repo.GetFile(r.Context(), q)
	data := []tools.RepoFile{}
	if f != nil {
		data = append(data, *f)
	}
	p.answer(w, "repository", map[string]any{"data": data}, err)
}

// repoTool and repoFileTool answer generators: repository and commit stand in the query string.
func (p *Platform) repoTool(w http.ResponseWriter, r *http.Request) {
	var in question
	at := r.URL.Query()
	if !p.asked(w, r, p.cfg.Repo != nil, "repository", &in) || !repo(w, at.Get("repo_url"), at.Get("commit_sha")) || !goodText(w, in.Query, "query") {
		return
	}
	hits, err := p.cfg.Repo.SearchRepo(r.Context(), tools.RepoQuery{URL: at.Get("repo_url"), Commit: at.Get("commit_sha"), Query: in.Query, Limit: 10})
	out := []snippet{}
	for _, h := range hits {
		s := snippet{URI: h.URL}
		if h.Excerpt != nil {
			s.Snippet = *h.Excerpt
		}
		out = append(out, s)
	}
	p.answer(w, "repository", out, err)
}

func (p *Platform) repoFileTool(w http.ResponseWriter, r *http.Request) {
	var in question
	at := r.URL.Query()
	if !p.asked(w, r, p.cfg.Repo != nil, "repository", &in) || !repo(w, at.Get("repo_url"), at.Get("commit_sha")) || !goodText(w, in.Query, "query") {
		return
	}
	f, err := p.cfg.Repo.GetFile(r.Context(), tools.FileQuery{URL: at.Get("repo_url"), Commit: at.Get("commit_sha"), Path: in.Query})
	out := []snippet{}
	if f != nil {
		out = append(out, snippet{f.Text, f.URL})
	}
	p.answer(w, "repository", out, err)
}
