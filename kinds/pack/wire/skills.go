package wire

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/pack/packfile"
	kindpack "github.com/agon-arena/agon/kinds/pack/play"
)

// A skill is the policy of a pack that did every scenario: it is public, under
// the arena's licence, and judged. Slugs are made here and never by a miner:
// readers install them as names of directories.

var hashForm = lazyregexp.New(`^[0-9a-f]{64}$`)

// cutHash reads the name of a pack's file.
func cutHash(file string) (string, bool) {
	hash, ok := strings.CutSuffix(file, ".json")
	return hash, ok && hashForm().MatchString(hash)
}

// public reads a pack that anybody may read.
func (b *Backend) public(ctx context.Context, e *entry) (*packfile.Pack, error) {
	files, err := b.cfg.Platform.SubmissionFiles(ctx, anybody, e.ID)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if f.Path == kindpack.File {
			return packfile.Read(f.Content)
		}
	}
	return nil, errors.New("the submission has no pack")
}

var notSlug = lazyregexp.New(`[^a-z0-9]+`)

func (e *entry) slug() string {
	name := strings.Trim(notSlug().ReplaceAllString(strings.ToLower(e.pack.Name), "-"), "-")
	if len(name) > 40 {
		name = strings.Trim(name[:40], "-")
	}
	if name == "" {
		name = "pack"
	}
	return name + "-" + e.pack.Hash[:8]
}

// agents are the places that the readers know how to install to.
var agents = []string{"claude-code", "cursor", "codex", "hermes", "openclaw"}

// skillEntries lists the packs that are skills, the seated first, then the newest.
func (s *snapshot) skillEntries() []*entry {
	var out []*entry
	seen := map[string]bool{}
	add := func(e *entry) {
		if e != nil && e.State == agon.SubmissionScored && e.status() == "passed" && (!e.Scripted || s.arena.Rehearsal) && e.pack.Hash != "" && !seen[e.pack.Hash] {
			seen[e.pack.Hash] = true
			out = append(out, e)
		}
	}
	add(s.seated())
	for _, e := range s.entries {
		add(e)
	}
	return out
}

func (b *Backend) tags(s *snapshot, e *entry) []string {
	out := []string{"policy-pack"}
	if s.share(e.ID) > 0 {
		out = append(out, "seated")
	}
	for i := range e.plays {
		if sc, ok := e.plays[i].result(); ok && sc.Qualified && !slices.Contains(out, sc.Name) {
			out = append(out, sc.Name)
		}
	}
	return out
}

func (b *Backend) skillRow(s *snapshot, e *entry, base string) map[string]any {
	name := e.pack.Name
	if name == "" {
		name = plain(e.Name, 80)
	}
	version := e.pack.Version
	if version == "" {
		version = "0.0.0"
	}
	return map[string]any{
		"slug": e.slug(), "name": name, "description": "Policy pack of " + e.Miner + " that qualified in every scenario of " + plain(s.arena.Title, 120) + ", under " + e.Licence + ".",
		"tags": b.tags(s, e), "version": version + "+" + e.pack.Hash[:8], "compatibleAgents": agents, "updatedAt": stamp(e.endedAt()), "license": e.Licence,
		"packHash": e.pack.Hash, "download_url": base + "/api/skills/" + e.slug() + "/SKILL.md",
	}
}

// maxTexts bounds the policies that are kept for searches, in bytes.
const maxTexts = 16 << 20

// texts are policies of skills, by submission. The zero value is empty.
type texts struct {
	mu   sync.Mutex
	list map[string]string // guarded by mu
	size int               // guarded by mu; of all in list
}

// of returns the text of a submission, which read gives the first time.
func (t *texts) of(id string, read func() string) string {
	t.mu.Lock()
	text, ok := t.list[id]
	t.mu.Unlock()
	if ok {
		return text
	}
	if text = read(); text == "" {
		return "" // it could not be read now
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.list == nil || t.size+len(text) > maxTexts {
		t.list, t.size = map[string]string{}, 0
	}
	if _, ok := t.list[id]; !ok {
		t.list[id], t.size = text, t.size+len(text)
	}
	return text
}

// policy is the policy of a skill; empty where it cannot be read.
func (b *Backend) policy(ctx context.Context, e *entry) string {
	p, err := b.public(ctx, e)
	if err != nil {
		return ""
	}
	text, _ := p.Policy()
	return text
}

// hasWords says whether every word of want stands in text, in whatever case.
func hasWords(text, want string) bool {
	text = strings.ToLower(text)
	for _, word := range strings.Fields(strings.ToLower(want)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (b *Backend) skills(w http.ResponseWriter, r *http.Request) {
	limit, ok := count(w, r, "limit", 50, 200)
	if !ok {
		return
	}
	page, ok := count(w, r, "page", 1, 1_000_000)
	if !ok {
		return
	}
	s := b.with(w, r, "skills")
	if s == nil {
		return
	}
	q := r.URL.Query()
	want, agent := q.Get("q"), q.Get("agent")
	var list []map[string]any
	for _, e := range s.skillEntries() {
		row := b.skillRow(s, e, b.base(r))
		tags := b.tags(s, e)
		all := append([]string{e.slug(), e.pack.Name, e.Name, e.Miner}, tags...)
		if want != "" {
			all = append(all, b.texts.of(e.ID, func() string { return b.policy(r.Context(), e) }))
		}
		fits := hasWords(strings.Join(all, " "), want) && (agent == "" || slices.Contains(agents, agent))
		for _, t := range q["tag"] {
			fits = fits && slices.Contains(tags, t)
		}
		if fits {
			list = append(list, row)
		}
	}
	total := len(list)
	from := min((page-1)*limit, total)
	list = list[from:min(from+limit, total)]
	if list == nil {
		list = []map[string]any{}
	}
	reply(w, http.StatusOK, map[string]any{"skills": list, "total": total, "page": page, "limit": limit})
}

func (b *Backend) skillTags(w http.ResponseWriter, r *http.Request) {
	s := b.with(w, r, "tags")
	if s == nil {
		return
	}
	n := map[string]int{}
	for _, e := range s.skillEntries() {
		for _, t := range b.tags(s, e) {
			n[t]++
		}
	}
	reply(w, http.StatusOK, map[string]any{"tags": n})
}

// find a skill with its content; false after it answered that there is none.
func (b *Backend) readSkill(w http.ResponseWriter, r *http.Request) (*snapshot, *entry, string, bool) {
	s := b.with(w, r, "skill")
	if s == nil {
		return nil, nil, "", false
	}
	for _, e := range s.skillEntries() {
		if e.slug() != r.PathValue("slug") {
			continue
		}
		p, err := b.public(r.Context(), e)
		if err != nil {
			break
		}
		if content, ok := p.Policy(); ok {
			return s, e, strings.ToValidUTF8(content, "\ufffd"), true
		}
	}
	fail(w, http.StatusNotFound, "Skill not found")
	return nil, nil, "", false
}

func (b *Backend) skill(w http.ResponseWriter, r *http.Request) {
	if s, e, content, ok := b.readSkill(w, r); ok {
		row := b.skillRow(s, e, b.base(r))
		row["content"] = content
		reply(w, http.StatusOK, row)
	}
}

func (b *Backend) skillFile(w http.ResponseWriter, r *http.Request) {
	if _, _, content, ok := b.readSkill(w, r); ok {
		w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		_, _ = w.Write([]byte(content)) // a client that is gone reads no error
	}
}
