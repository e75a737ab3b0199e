package wire

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/kinds/coding/play"
)

// Ridges' judges look at an agent before it is played (pre-screening jobs) and before
// it may sit (approval jobs). There they read and write the platform's database;
// here they take a job by lease and answer it over these routes.

// policyVersion is the policy that jobs of Ridges name where nothing else is set.
const policyVersion = "hardcoding-linting-v1"

// Leases of jobs, where a worker says nothing, and at most.
const (
	jobLease    = 5 * time.Minute
	maxJobLease = 2 * time.Hour
)

// jobKind is one of the two kinds of jobs, with its words for a verdict.
type jobKind struct {
	what     string
	verdicts map[string]string // of Ridges, and what they mean here
	score    string            // the field of the score; "": none
}

var (
	preScreening = jobKind{store.VetEntry, map[string]string{"pass": store.VetPassed, "fail": store.VetRefused, "needs_review": store.VetUnsure}, ""}
	approvals    = jobKind{store.VetSeat, map[string]string{"approved": store.VetPassed, "rejected": store.VetRefused, "needs_review": store.VetUnsure}, "approval_score"}
)

// status is a job's state in Ridges' words.
func (k jobKind) status(v *store.Vetting) string {
	switch {
	case v.State == store.VettingHeld:
		return "running"
	case v.State == store.VettingSent:
		return "needs_review"
	case v.State == store.VettingOpen && v.Error != "":
		return "error"
	case v.State == store.VettingOpen:
		return "pending"
	case k.what == store.VetSeat:
		return "completed"
	case v.Verdict == store.VetPassed:
		return "succeeded"
	}
	return "failed"
}

// job is a job as workers and the operator see it.
func (b *Backend) job(k jobKind, v *store.Vetting) map[string]any {
	out := map[string]any{
		"job_id": v.ID, "agent_id": b.agentID(v.Submission), "status": k.status(v), "attempt_count": v.Tries, "claimed_by": null(v.Worker), "claimed_at": stamp(v.ClaimedAt), "lease_expires_at": stamp(v.LeaseUntil),
		"next_attempt_at": stamp(v.NextAt), "last_error": null(v.Error), "policy_version": policyVersion, "created_at": stamp(v.CreatedAt), "projected_at": stamp(v.EndedAt),
		"verdict": nil, "confidence": nil, "summary": nil, "reviewer_id": null(v.Actor),
	}
	if v.Verdict != "" {
		for word, means := range k.verdicts {
			if means == v.Verdict {
				out["verdict"] = word
			}
		}
		out["confidence"], out["summary"] = v.Confidence, v.Summary
		if k.score != "" {
			out[k.score] = v.Score
		}
	}
	return out
}

func null(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// judge lets workers in. ok is false when it has answered.
func (b *Backend) judge(w http.ResponseWriter, r *http.Request) bool {
	if b.cfg.JudgeKey == "" {
		refuse(w, http.StatusServiceUnavailable, "Judges are not configured")
		return false
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(b.cfg.JudgeKey)) != 1 {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "Invalid judge credentials")
		return false
	}
	return true
}

// claimJob is POST /judge/pre-screening-jobs/claim and /judge/approval-jobs/claim: the
// job that has waited longest, with the agent's source; null where there is none.
func claimJob(k jobKind) func(*Backend, http.ResponseWriter, *http.Request) {
	return func(b *Backend, w http.ResponseWriter, r *http.Request) {
		var in struct {
			By    string `json:"claimed_by"`
			Lease *int64 `json:"lease_seconds"`
			Arena string `json:"arena"`
		}
		if !b.judge(w, r) || !decode(w, r, maxSmall, &in, "claimed_by") {
			return
		}
		hold := jobLease
		if in.Lease != nil {
			if hold = time.Duration(*in.Lease) * time.Second; *in.Lease < 10 || *in.Lease > int64(maxJobLease/time.Second) {
				invalid(w, "out_of_range", "Input should be 10 to 7200", "body", "lease_seconds")
				return
			}
		}
		if in.By = strings.TrimSpace(in.By); in.By == "" || len(in.By) > 200 {
			invalid(w, "string_too_short", "String should have 1 to 200 characters", "body", "claimed_by")
			return
		}
		if in.Arena == "" {
			in.Arena = b.cfg.Arena
		}
		v, token, err := b.cfg.Platform.ClaimVetting(r.Context(), operator, in.Arena, k.what, clip(in.By, 200), hold)
		switch {
		case err != nil:
			b.fail(w, "claim a job", err)
			return
		case v == nil:
			reply(w, http.StatusOK, nil)
			return
		}
		out := b.job(k, v)
		out["claim_token"] = token
		if err := b.askOf(r.Context(), k, v, out); err != nil {
			b.fail(w, "claim a job", err)
			return
		}
		b.books.stale()
		reply(w, http.StatusOK, out)
	}
}

// askOf adds what a worker judges by.
func (b *Backend) askOf(ctx context.Context, k jobKind, v *store.Vetting, out map[string]any) error {
	files, err := b.cfg.Platform.SubmissionFiles(ctx, operator, v.Submission)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(files, func(f client.File) bool { return f.Path == "agent.py" }); i >= 0 {
		out["source"] = map[string]any{"file": "agent.py", "sha256": agon.Sum(files[i].Content).Hex(), "content": string(files[i].Content)}
	}
	if k.what != store.VetSeat {
		return nil
	}
	sub, err := b.cfg.Platform.Submission(ctx, operator, v.Submission)
	if err != nil {
		return err
	}
	sets, err := b.allSets(ctx)
	if err != nil {
		return err
	}
	id, set := b.agentID(v.Submission), setAt(sets, sub.CreatedAt)
	scores := []any{}
	for _, e := range b.evaluationsOf(id) {
		runs, err := b.runsOf(e)
		if err != nil {
			return err
		}
		if status, score := standing(runs); e.Group == "validator" && status == "success" {
			scores = append(scores, map[string]any{"validator_hotkey": e.Hotkey, "score": score})
		}
	}
	var before any
	if p, err := b.cfg.Platform.VettingOf(ctx, operator, v.Submission, store.VetEntry); err != nil {
		return err
	} else if p != nil {
		j := b.job(preScreening, p)
		resolution := "auto"
		if p.Actor != "" {
			resolution = "human"
		}
		before = map[string]any{"verdict": j["verdict"], "confidence": j["confidence"], "summary": j["summary"], "policy_version": policyVersion, "resolution": resolution}
	}
	out["set_id"] = set
	out["input_snapshot"] = map[string]any{
		"agent_id": id, "set_id": set, "source": map[string]any{"type": "s3_key", "key": id + "/agent.py", "file": "agent.py"},
		"evaluation_context": map[string]any{"final_validator_score": sub.Score, "validator_count": len(scores), "validator_scores": scores, "pre_screening": before},
	}
	return nil
}

// answerJob is POST /judge/pre-screening-jobs/{job}/result and /judge/approval-jobs/{job}/result:
// a verdict, or an error, after which the job is tried again later.
func answerJob(k jobKind) func(*Backend, http.ResponseWriter, *http.Request) {
	return func(b *Backend, w http.ResponseWriter, r *http.Request) {
		var in map[string]json.RawMessage
		if !b.judge(w, r) || !decode(w, r, maxBody, &in, "claim_token") {
			return
		}
		var a platform.VetAnswer
		var verdict string
		fields := map[string]any{"claim_token": &a.Token, "error": &a.Error, "verdict": &verdict, "confidence": &a.Confidence, "summary": &a.Summary}
		if k.score != "" {
			fields[k.score] = &a.Score
		}
		for name, to := range fields {
			if raw, ok := in[name]; ok && string(raw) != "null" && json.Unmarshal(raw, to) != nil {
				invalid(w, "type_error", "Input should be of another type", "body", name)
				return
			}
		}
		if a.Error == "" {
			if a.Verdict = k.verdicts[verdict]; a.Verdict == "" {
				invalid(w, "enum", "Input should be one of the verdicts of such a job, or error be given", "body", "verdict")
				return
			}
		}
		delete(in, "claim_token")
		var err error
		if a.Detail, err = json.Marshal(in); err != nil {
			b.fail(w, "answer a job", err)
			return
		}
		v, err := b.cfg.Platform.AnswerVetting(r.Context(), operator, r.PathValue("job"), a)
		if err != nil {
			b.missing(w, "answer a job", err, "Job %s does not exist", clip(r.PathValue("job"), 80))
			return
		}
		b.books.stale()
		reply(w, http.StatusOK, b.job(k, v))
	}
}

// reviewJob is POST /admin/pre-screening-jobs/{job}/review and /admin/approval-jobs/{job}/review:
// the operator settles what a judge was unsure of.
func reviewJob(k jobKind) func(*Backend, http.ResponseWriter, *http.Request) {
	return func(b *Backend, w http.ResponseWriter, r *http.Request) {
		var in struct {
			Decision string `json:"decision"`
			Reason   string `json:"reason"`
			Reviewer string `json:"reviewer_id"`
		}
		if !b.admin(w, r) || !decode(w, r, maxSmall, &in, "decision", "reason", "reviewer_id") {
			return
		}
		if in.Decision != "approved" && in.Decision != "rejected" {
			invalid(w, "enum", "Input should be 'approved' or 'rejected'", "body", "decision")
			return
		}
		v, err := b.cfg.Platform.ReviewVetting(r.Context(), operator, r.PathValue("job"), clip(in.Reviewer, 200), in.Reason, in.Decision == "approved")
		if err != nil {
			b.missing(w, "review a job", err, "Job %s does not exist", clip(r.PathValue("job"), 80))
			return
		}
		b.books.stale()
		reply(w, http.StatusOK, b.job(k, v))
	}
}

// jobStates are the states behind a status that the lists are asked for.
var jobStates = map[string]string{"": "", "pending": store.VettingOpen, "running": store.VettingHeld, "needs_review": store.VettingSent}

// listJobs is GET /admin/pre-screening-jobs and /admin/approval-jobs.
func listJobs(k jobKind) func(*Backend, http.ResponseWriter, *http.Request) {
	return func(b *Backend, w http.ResponseWriter, r *http.Request) {
		if b.cfg.AdminKey == "" { // a list of ours: nothing is there to read
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		if !b.admin(w, r) {
			return
		}
		state, ok := jobStates[r.URL.Query().Get("status")]
		if !ok {
			invalid(w, "enum", "Input should be 'pending', 'running' or 'needs_review'", "query", "status")
			return
		}
		list, err := b.cfg.Platform.Vettings(r.Context(), operator, b.cfg.Arena, k.what, state)
		if err != nil {
			b.fail(w, "jobs", err)
			return
		}
		out := []any{}
		for i := range list {
			out = append(out, b.job(k, &list[i]))
		}
		reply(w, http.StatusOK, out)
	}
}

// vets says what an arena has vetted.
var vets kind.Vetted = &play.Kind{}

// seatReview is how far the approval of an agent is, in Ridges' words; "": nobody was asked.
func (b *Backend) seatReview(ctx context.Context, a *client.Arena, s client.Submission) (string, error) {
	if _, seats := vets.Vets(&a.Arena); !seats || s.State != agon.SubmissionPlaying && s.State != agon.SubmissionScored {
		return "", nil
	}
	v, err := b.cfg.Platform.VettingOf(ctx, operator, s.ID, store.VetSeat)
	if err != nil || v == nil {
		return "", err
	}
	switch {
	case v.State == store.VettingHeld:
		return "processing", nil
	case v.State == store.VettingSent:
		return "under_review", nil
	case v.State == store.VettingOpen:
		return "pending", nil
	case s.Decision != nil && s.Decision.Outcome != agon.TookSeat: // refused, or it reaches the bar no more
		return "rejected", nil
	}
	return "approved", nil
}

// statusOf is the status of an agent in Ridges' words.
func (b *Backend) statusOf(ctx context.Context, a *client.Arena, s client.Submission) (string, error) {
	word := func(stage string) string {
		if n, ok := strings.CutPrefix(stage, "screener_"); ok {
			return "screening_" + n
		}
		return "evaluating"
	}
	switch s.State {
	case agon.SubmissionScored:
		return "finished", nil
	case agon.SubmissionRefused, agon.SubmissionExcluded:
		for _, f := range s.Findings {
			if f.Code == kind.StageRefused {
				if w := word(f.Field); w != "evaluating" {
					return "failed_" + w, nil
				}
				return "cancelled", nil
			}
			if f.Code == "incomplete" || f.Code == "banned" {
				return "cancelled", nil
			}
		}
		return "failed_pre_screening", nil
	case agon.SubmissionQueued:
		if entries, _ := vets.Vets(&a.Arena); entries {
			v, err := b.cfg.Platform.VettingOf(ctx, operator, s.ID, store.VetEntry)
			switch {
			case err != nil:
				return "", err
			case v != nil && v.State == store.VettingSent:
				return "pre_screening_needs_review", nil
			case v != nil && v.State != store.VettingDone:
				return "pre_screening", nil
			}
		}
	case agon.SubmissionPlaying:
		if review, err := b.seatReview(ctx, a, s); err != nil || review != "" {
			return "finished", err
		}
	}
	if len(a.Stages) == 0 {
		return "evaluating", nil
	}
	page, err := b.cfg.Platform.Runs(ctx, operator, b.cfg.Arena, s.ID, "", "", 1) // the newest
	if err != nil {
		return "", err
	}
	if len(page.Items) == 0 {
		return word(a.Stages[0].Name), nil
	}
	return word(page.Items[0].Stage), nil
}
