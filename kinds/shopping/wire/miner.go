package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Cooldown is how long a hotkey waits between two entries of an arena that does not say.
const Cooldown = 12 * time.Hour

// cooldown is that of an arena.
func cooldown(a *client.Arena) time.Duration {
	if a.CooldownSeconds > 0 {
		return time.Duration(a.CooldownSeconds) * time.Second
	}
	return Cooldown
}

// Limits of an entry (spec/oro.md 1.9).
const (
	agentFile  = "agent.py"
	maxAgent   = 1 << 20
	maxName    = 400               // bytes of a name, before it is looked at
	maxEntries = maxAgent + 64<<10 // bytes of the whole form
)

var nameForm = lazyregexp.New(`^[A-Za-z0-9 _.-]{1,100}$`)

// submit is POST /v1/miner/submit: a form with agent_name and file.
func (b *Backend) submit(w http.ResponseWriter, r *http.Request) {
	id, body, ok := b.signed(w, r, asMiner, maxEntries)
	if !ok {
		return
	}
	name, source, why := readForm(r.Header.Get("Content-Type"), body)
	switch {
	case why != "":
		invalid(w, "value_error", why)
		return
	case !nameForm().MatchString(name):
		refuse(w, http.StatusBadRequest, "INVALID_AGENT_NAME", "agent_name: want 1 to 100 of A-Z, a-z, 0-9, blank, _, . and -")
		return
	case len(source) > maxAgent:
		refuse(w, http.StatusRequestEntityTooLarge, "FILE_TOO_LARGE", "the file is larger than %d bytes", maxAgent)
		return
	}
	arena, err := b.cfg.Platform.Arena(r.Context(), b.cfg.Arena)
	if err != nil {
		b.broken(w, "submit", err)
		return
	}
	if len(arena.Tasks) == 0 || arena.State != agon.ArenaOpen {
		refuse(w, http.StatusServiceUnavailable, "NO_ACTIVE_SUITE", "There is no open suite")
		return
	}
	// One entry at a time: whether a hotkey may enter is looked up and changed together.
	b.entering.Lock()
	defer b.entering.Unlock()
	last, err := b.lastEntry(r.Context(), id.Hotkey)
	if err != nil {
		b.broken(w, "submit", err)
		return
	}
	if last != nil {
		if left := last.CreatedAt.Add(cooldown(arena)).Sub(b.cfg.Now()); left > 0 {
			reply(w, http.StatusTooManyRequests, map[string]any{
				"detail": fmt.Sprintf("One entry in %s", cooldown(arena)), "error_code": "COOLDOWN_ACTIVE", "remaining_seconds": int64(left.Seconds()) + 1, "next_allowed_at": stamp(last.CreatedAt.Add(cooldown(arena))),
			})
			return
		}
	}
	s, err := b.cfg.Platform.Submit(r.Context(), platform.Caller{Hotkey: id.Hotkey}, b.cfg.Arena, client.SubmitRequest{
		Name: plain.Head(plain.Line(name), 80), Licence: arena.Licence, Files: []client.File{{Path: agentFile, Content: source}},
	})
	var e *agon.Error
	switch {
	case errors.As(err, &e) && len(e.Findings) > 0:
		type violation struct {
			Code    string `json:"code"`
			Where   string `json:"location"`
			Message string `json:"message"`
		}
		var list []violation
		for _, f := range e.Findings {
			list = append(list, violation{f.Code, f.Field, f.Message})
		}
		reply(w, http.StatusUnprocessableEntity, map[string]any{"detail": e.Message, "error_code": "CODE_ANALYSIS_ERROR", "violations": list, "remaining_seconds": 0})
		return
	case err != nil:
		b.broken(w, "submit", err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"agent_id": uuidOf("agent", s.Miner), "agent_version_id": versionID(s.ID), "admission_status": "ACCEPTED", "admission_reason": nil,
		"next_allowed_at": stamp(s.CreatedAt.Add(cooldown(arena))), "hotkey": s.Miner, "message": "accepted as " + s.ID,
	})
}

// readForm reads a multipart form whose whole body is at hand.
func readForm(contentType string, body []byte) (name string, source []byte, why string) {
	ct, params, err := mime.ParseMediaType(contentType)
	if err != nil || ct != "multipart/form-data" || params["boundary"] == "" {
		return "", nil, "want multipart/form-data"
	}
	form := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	seen := map[string]bool{}
	for range 8 {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", nil, "the form is broken"
		}
		field := p.FormName()
		limit := int64(maxName)
		if field == "file" {
			limit = maxAgent + 1
		}
		b, err := io.ReadAll(io.LimitReader(p, limit))
		if err != nil {
			return "", nil, "the form is broken"
		}
		if seen[field] {
			return "", nil, "a field is there twice"
		}
		seen[field] = true
		switch field {
		case "agent_name":
			name = string(b)
		case "file":
			source = b
		}
	}
	if !seen["agent_name"] || !seen["file"] {
		return "", nil, "agent_name and file are required"
	}
	return name, source, ""
}

func (b *Backend) lastEntry(ctx context.Context, hotkey string) (*client.Submission, error) {
	page, err := b.cfg.Platform.Submissions(ctx, operator, b.cfg.Arena, hotkey, "", 1)
	if err != nil || len(page.Items) == 0 {
		return nil, err
	}
	return &page.Items[0], nil
}

// agents is GET /v1/miner/agents: the caller's own.
func (b *Backend) agents(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	list, err := b.submissions(r.Context(), id.Hotkey)
	if err != nil {
		b.broken(w, "agents", err)
		return
	}
	arena, err := b.cfg.Platform.Arena(r.Context(), b.cfg.Arena)
	if err != nil {
		b.broken(w, "agents", err)
		return
	}
	out := map[string]any{"agents": []any{}, "can_submit": true, "next_allowed_at": nil}
	if len(list) > 0 {
		last, first := list[0], list[len(list)-1]
		next := last.CreatedAt.Add(cooldown(arena))
		out["agents"] = []any{map[string]any{
			"agent_id": uuidOf("agent", id.Hotkey), "miner_hotkey": id.Hotkey, "agent_name": last.Name, "created_at": stamp(first.CreatedAt), "latest_version": historyEntry(&last, len(list)),
		}}
		out["can_submit"], out["next_allowed_at"] = !b.cfg.Now().Before(next), stamp(next)
	}
	reply(w, http.StatusOK, out)
}

func historyEntry(s *client.Submission, n int) map[string]any {
	return map[string]any{
		"agent_version_id": versionID(s.ID), "version_number": n, "submitted_at": stamp(s.CreatedAt), "state": versionState(s), "eliminated_at": eliminated(s), "final_score": qualifyingScore(s),
	}
}

// agentVersions is GET /v1/miner/agents/{id}/versions.
func (b *Backend) agentVersions(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	list, err := b.submissions(r.Context(), id.Hotkey)
	switch {
	case err != nil:
		b.broken(w, "agent versions", err)
		return
	case r.PathValue("id") != uuidOf("agent", id.Hotkey) || len(list) == 0:
		refuse(w, http.StatusNotFound, "AGENT_NOT_FOUND", "You have no such agent")
		return
	}
	out := []any{}
	for i, s := range list {
		out = append(out, historyEntry(&s, len(list)-i))
	}
	reply(w, http.StatusOK, out)
}

// ownVersion is GET /v1/miner/agent-versions/{id}.
func (b *Backend) ownVersion(w http.ResponseWriter, r *http.Request) {
	id, _, ok := b.signed(w, r, asMiner, maxBody)
	if !ok {
		return
	}
	s, n, ok := b.byVersion(w, r)
	switch {
	case !ok:
	case s.Miner != id.Hotkey:
		refuse(w, http.StatusNotFound, "AGENT_VERSION_NOT_FOUND", "You have no such agent version")
	default:
		b.status(w, r, s, n)
	}
}
