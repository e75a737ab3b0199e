package wire

import (
	"encoding/json"
	"io"
	"net/http"

	"github.com/agon-arena/agon/kinds/research/coordinator"
)

func (h *handler) tasks(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.Tasks(r.Context())
	h.send(w, r, v, err)
}

func (h *handler) onboard(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.Task(r.Context(), r.PathValue("id"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	_, _ = io.WriteString(w, coordinator.Onboard(*v, h.Coordinator.URL()))
}

type claimBody struct {
	Description string `json:"claim_description"`
	Base        string `json:"base_submission_id"`
}

// once is the request under a context in which what it asks for, and that it was
// asked, become one commit. end must see the outcome before it is answered.
func (h *handler) once(r *http.Request) (_ *http.Request, end func(error) error) {
	ctx, end := h.Coordinator.Once(r.Context())
	return r.WithContext(ctx), end
}

func (h *handler) claimTask(w http.ResponseWriter, r *http.Request) {
	r, end := h.once(r)
	hotkey, b, ok := h.signed(w, r, maxSmall)
	var in claimBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	v, err := h.Coordinator.Claim(r.Context(), hotkey, r.PathValue("id"), coordinator.ClaimRequest{Description: in.Description, Base: in.Base})
	h.send(w, r, v, end(err))
}

func (h *handler) claimItem(w http.ResponseWriter, r *http.Request) {
	r, end := h.once(r)
	hotkey, b, ok := h.signed(w, r, maxSmall)
	var in claimBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	v, err := h.Coordinator.Claim(r.Context(), hotkey, "", coordinator.ClaimRequest{Description: in.Description, Base: in.Base, Item: r.PathValue("id")})
	h.send(w, r, v, end(err))
}

func (h *handler) cancel(w http.ResponseWriter, r *http.Request) {
	hotkey, _, ok := h.signed(w, r, maxSmall)
	if !ok {
		return
	}
	v, err := h.Coordinator.CancelClaim(r.Context(), hotkey, r.PathValue("id"))
	h.send(w, r, v, err)
}

func (h *handler) claims(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v, err := h.Coordinator.Claims(r.Context(), q.Get("task_id"), q.Get("status"), limit(r))
	h.send(w, r, v, err)
}

func (h *handler) workItems(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v, err := h.Coordinator.WorkItems(r.Context(), q.Get("task_id"), q.Get("status"), limit(r))
	h.send(w, r, v, err)
}

func (h *handler) submit(w http.ResponseWriter, r *http.Request) {
	r, end := h.once(r)
	hotkey, b, ok := h.signed(w, r, h.Coordinator.MaxBody())
	var in coordinator.Entry
	if !ok || !decode(w, b, false, &in) {
		return
	}
	v, err := h.Coordinator.Submit(r.Context(), hotkey, &in)
	h.send(w, r, v, end(err))
}

func (h *handler) submissions(w http.ResponseWriter, r *http.Request) {
	// Who signs is told when the signature is wrong, though anybody may read.
	if h.SignedReads || r.Header.Get("X-Signature") != "" {
		if _, _, ok := h.signed(w, r, maxSmall); !ok {
			return
		}
	}
	q := r.URL.Query()
	v, err := h.Coordinator.Submissions(r.Context(), coordinator.SubmissionFilter{
		Task: q.Get("task_id"), Status: q.Get("status"), Miner: q.Get("miner_hotkey"), Limit: limit(r),
	})
	h.send(w, r, v, err)
}

func (h *handler) detail(w http.ResponseWriter, r *http.Request) {
	who, ok := h.viewer(w, r)
	if !ok {
		return
	}
	v, err := h.Coordinator.Detail(r.Context(), who, r.PathValue("id"))
	h.send(w, r, v, err)
}

func (h *handler) executionLog(w http.ResponseWriter, r *http.Request) {
	who, ok := h.viewer(w, r)
	if !ok {
		return
	}
	s, err := h.Coordinator.ExecutionLog(r.Context(), who, r.PathValue("id"))
	h.text(w, r, s, err)
}

// text answers plain text that a browser never renders.
func (h *handler) text(w http.ResponseWriter, r *http.Request, s string, err error) {
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = io.WriteString(w, s)
}

func (h *handler) artifact(w http.ResponseWriter, r *http.Request) {
	uri, err := h.Coordinator.ArtifactURI(r.Context(), r.PathValue("id"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Location", uri)
	w.WriteHeader(http.StatusTemporaryRedirect)
}

func (h *handler) export(w http.ResponseWriter, r *http.Request) {
	who, ok := h.viewer(w, r)
	if !ok {
		return
	}
	b, err := h.Coordinator.Export(r.Context(), who, r.PathValue("id"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	_, _ = w.Write(b)
}

type evaluation struct {
	Status   string                     `json:"status"`
	Observed map[string]json.RawMessage `json:"observed_metrics"`
	Notes    string                     `json:"notes"`
	Log      string                     `json:"replay_log"`
}

func (h *handler) peerEvaluate(w http.ResponseWriter, r *http.Request) {
	hotkey, b, ok := h.signed(w, r, 2<<20)
	var in evaluation
	if !ok || !decode(w, b, false, &in) {
		return
	}
	v, err := h.Coordinator.PeerEvaluate(r.Context(), hotkey, r.PathValue("id"), coordinator.JobResult{Status: in.Status, Observed: in.Observed, Notes: in.Notes})
	h.send(w, r, v, err)
}

func (h *handler) peers(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	v, err := h.Coordinator.Peers(r.Context(), coordinator.PeerFilter{Submission: q.Get("submission_id"), Evaluator: q.Get("evaluator_hotkey"), Status: q.Get("status")})
	h.send(w, r, v, err)
}

func (h *handler) verifications(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("submission_id") == "" {
		reply(w, http.StatusOK, []any{})
		return
	}
	v, err := h.Coordinator.Verifications(r.Context(), q.Get("submission_id"), q.Get("status"))
	h.send(w, r, v, err)
}

func (h *handler) ideas(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	first := func(names ...string) string {
		for _, n := range names {
			if v := q.Get(n); v != "" {
				return v
			}
		}
		return ""
	}
	v, err := h.Coordinator.Ideas(r.Context(), coordinator.IdeaFilter{
		Task: first("task_id", "task"), Submission: first("submission_id", "submission"),
		Proposer: first("proposer_hotkey", "proposer"), Implementer: first("implementer_hotkey", "implementer"),
	})
	h.send(w, r, v, err)
}

func (h *handler) dashboard(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	v, err := h.Coordinator.Dashboard(r.Context())
	h.send(w, r, v, err)
}

func (h *handler) onchain(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, map[string]any{"configured": false, "ws_url": nil, "contract": nil, "metadata_path": nil})
}

// What a miner must be told before it signs anything.
var disclaimer = map[string]any{
	"code": "research-terms", "version": "1", "title": "What you agree to",
	"summary":      "Your submission is published under the arena's licence once it is decided. Replays decide, claims do not. Rewards follow the published policy and may be zero.",
	"must_display": true, "url": "/disclaimer.md",
}

func (h *handler) disclaimer(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, disclaimer)
}

func (h *handler) disclaimerText(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	_, _ = io.WriteString(w, "# "+disclaimer["title"].(string)+"\n\n"+disclaimer["summary"].(string)+"\n")
}
