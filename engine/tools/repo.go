package tools

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Repo answers the repository tools. Safe for concurrent use; *Failure for
// every ending that is not an answer (Own where repository, commit or path do
// not exist).
type Repo interface {
	Name() string
	SearchRepo(ctx context.Context, q RepoQuery) ([]RepoHit, error)
	GetFile(ctx context.Context, q FileQuery) (*RepoFile, error)
}

// RepoQuery is search_repo.
type RepoQuery struct {
	URL, Commit, Query, Glob string
	Limit                    int
}

// RepoHit is one entry of search_repo. BM25 is negative: the smaller, the better.
type RepoHit struct {
	Path    string   `json:"path"`
	URL     string   `json:"url"`
	BM25    *float64 `json:"bm25,omitempty"`
	Excerpt *string  `json:"excerpt,omitempty"`
	Title   *string  `json:"title,omitempty"`
}

// FileQuery is get_repo_file. Lines count from 1; 0 is absent.
type FileQuery struct {
	URL, Commit, Path string
	Start, End        int
}

// RepoFile is the entry of get_repo_file.
type RepoFile struct {
	Path    string  `json:"path"`
	URL     string  `json:"url"`
	Text    string  `json:"text"`
	Excerpt *string `json:"excerpt,omitempty"`
	Title   *string `json:"title,omitempty"`
}

// ExcerptLen bounds an excerpt in code points.
const ExcerptLen = 1000

var (
	commitForm = lazyregexp.New(`^[0-9a-f]{40}$`)
	// repoForm is an address that git may be given: https, a host name, a plain
	// path. No credentials, no port, no query, nothing that git reads as an option or a helper.
	repoForm = lazyregexp.New(`^https://[a-z0-9]([a-z0-9.-]*[a-z0-9])?(/[A-Za-z0-9_.~-]+)+/?$`)
)

// CheckRepo refuses what must not reach git.
func CheckRepo(url, commit string) error {
	switch {
	case len(url) > 300 || !repoForm().MatchString(url) || strings.Contains(url, "/.."):
		return fmt.Errorf("%w: repo_url: want https://host/path", errInvalid)
	case !commitForm().MatchString(commit):
		return fmt.Errorf("%w: commit_sha: want 40 lower-case hex digits", errInvalid)
	}
	return nil
}

func (s *Session) planRepo(tool string, a *args) (*plan, error) {
	b := s.cfg.Repo
	if b == nil {
		return nil, errNoBackend
	}
	url, commit := a.str("repo_url", true, 300), a.str("commit_sha", true, 40)
	p := &plan{policy: Referenceable, backend: b.Name(), worst: priceRepo, timeout: longTimeout}
	if tool == SearchRepo {
		q := RepoQuery{URL: url, Commit: commit, Query: a.text("query"), Glob: a.str("path_glob", false, 200), Limit: int(a.num("limit", 10, 1, 50, false))}
		if _, err := path.Match(q.Glob, ""); err != nil {
			a.fail("path_glob", "it is not a pattern")
		}
		p.run = func(ctx context.Context) (*reply, error) {
			hits, err := b.SearchRepo(ctx, q)
			if err != nil {
				return nil, err
			}
			hits = bound(hits, q.Limit)
			out := &reply{response: map[string]any{"data": list(hits)}, cost: priceRepo}
			for _, h := range hits {
				out.cite(h.URL, h.Excerpt, h.Title)
			}
			return out, nil
		}
	} else {
		q := FileQuery{URL: url, Commit: commit, Path: a.text("path"), Start: int(a.num("start_line", 0, 1, 1<<30, false)), End: int(a.num("end_line", 0, 1, 1<<30, false))}
		if q.End > 0 && q.End < q.Start {
			a.fail("end_line", "it is before start_line")
		}
		p.run = func(ctx context.Context) (*reply, error) {
			f, err := b.GetFile(ctx, q)
			if err != nil {
				return nil, err
			}
			out := &reply{response: map[string]any{"data": []RepoFile{*f}}, cost: priceRepo}
			out.cite(f.URL, f.Excerpt, f.Title)
			return out, nil
		}
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	if err := CheckRepo(url, commit); err != nil {
		return nil, err
	}
	return p, nil
}
