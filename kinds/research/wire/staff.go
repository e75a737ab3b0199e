package wire

import (
	"errors"
	"net/http"

	"github.com/agon-arena/agon/kinds/research/coordinator"
)

// validator reads a signed request of one that may act as a validator.
func (h *handler) validator(w http.ResponseWriter, r *http.Request, limit int64) (string, []byte, bool) {
	hotkey, b, ok := h.signed(w, r, limit)
	if !ok {
		return "", nil, false
	}
	if h.Admit != nil && !h.Admit(r.Context(), hotkey) {
		reply(w, http.StatusForbidden, detail(map[string]string{"error": "validator_not_allowlisted", "message": "hotkey " + hotkey + " is not on the list of validators"}))
		return "", nil, false
	}
	return hotkey, b, true
}

type scanBody struct {
	Task string `json:"task_id"`
}

func (h *handler) scan(w http.ResponseWriter, r *http.Request) {
	hotkey, b, ok := h.validator(w, r, maxSmall)
	var in scanBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	jobs, err := h.Coordinator.Scan(r.Context(), hotkey, in.Task, 0)
	if jobs == nil {
		jobs = []coordinator.Job{}
	}
	h.send(w, r, map[string]any{"jobs": jobs}, err)
}

func (h *handler) claimJob(w http.ResponseWriter, r *http.Request) {
	hotkey, b, ok := h.validator(w, r, maxSmall)
	var in scanBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	jobs, err := h.Coordinator.Scan(r.Context(), hotkey, in.Task, 1)
	switch {
	case err != nil:
		h.fail(w, r, err)
	case len(jobs) == 0:
		reply(w, http.StatusNotFound, detail("no pending validator jobs"))
	default:
		reply(w, http.StatusOK, jobs[0])
	}
}

func (h *handler) result(w http.ResponseWriter, r *http.Request) {
	hotkey, b, ok := h.validator(w, r, 2<<20)
	var in coordinator.JobResult
	if !ok || !decode(w, b, false, &in) {
		return
	}
	v, err := h.Coordinator.Result(r.Context(), hotkey, r.PathValue("id"), in)
	h.send(w, r, v, err)
}

// verify is the road of jobs without an id. Ours always have one, so it settles
// the job that the validator holds of this submission.
func (h *handler) verify(w http.ResponseWriter, r *http.Request) {
	hotkey, b, ok := h.validator(w, r, 2<<20)
	var in evaluation
	if !ok || !decode(w, b, false, &in) {
		return
	}
	if !h.Verify {
		reply(w, http.StatusServiceUnavailable, detail("direct verification is disabled: take a job from /validator/submissions/scan"))
		return
	}
	id, err := h.Coordinator.OpenJob(r.Context(), hotkey, r.PathValue("id"))
	if err != nil {
		h.fail(w, r, err)
		return
	}
	v, err := h.Coordinator.Result(r.Context(), hotkey, id, coordinator.JobResult{Submission: r.PathValue("id"), Status: in.Status, Observed: in.Observed, Notes: in.Notes, Log: in.Log})
	h.send(w, r, v, err)
}

func (h *handler) heartbeat(w http.ResponseWriter, r *http.Request) {
	hotkey, _, ok := h.validator(w, r, maxSmall)
	if !ok {
		return
	}
	v, err := h.Coordinator.Beat(r.Context(), hotkey, r.PathValue("id"))
	h.send(w, r, v, err)
}

func (h *handler) validators(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.Validators(r.Context())
	h.send(w, r, v, err)
}

func (h *handler) setState(to string) http.HandlerFunc {
	return h.admin(func(w http.ResponseWriter, r *http.Request) {
		v, err := h.Coordinator.SetState(r.Context(), r.PathValue("id"), to)
		h.send(w, r, v, err)
	})
}

func (h *handler) plan(w http.ResponseWriter, r *http.Request) {
	b, ok := h.body(w, r, maxSmall)
	var in scanBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	v, err := h.Coordinator.Plan(r.Context(), in.Task)
	h.send(w, r, map[string]any{"created": v}, err)
}

func (h *handler) planAgentic(w http.ResponseWriter, r *http.Request) {
	b, ok := h.body(w, r, maxSmall)
	var in scanBody
	if !ok || !decode(w, b, true, &in) {
		return
	}
	v, err := h.Coordinator.PlanByModel(r.Context(), in.Task)
	h.send(w, r, map[string]any{"created": v}, err)
}

func (h *handler) canary(w http.ResponseWriter, r *http.Request) {
	b, ok := h.body(w, r, maxSmall)
	var in coordinator.Canary
	if !ok || !decode(w, b, false, &in) {
		return
	}
	v, err := h.Coordinator.MakeCanary(r.Context(), in)
	h.send(w, r, v, err)
}

func (h *handler) replayLog(w http.ResponseWriter, r *http.Request) {
	s, err := h.Coordinator.ReplayLog(r.Context(), r.PathValue("id"))
	h.text(w, r, s, err)
}

func (h *handler) requeue(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.Requeue(r.Context(), r.PathValue("id"))
	h.send(w, r, v, err)
}

// createTask is for the admin, and for hotkeys that an arena names among its publishers.
func (h *handler) createTask(w http.ResponseWriter, r *http.Request) {
	var hotkey string
	var b []byte
	var ok bool
	switch {
	case h.isAdmin(r):
		b, ok = h.body(w, r, coordinator.MaxCreate)
	case r.Header.Get(adminHeader) != "" || r.Header.Get("X-Signature") == "":
		reply(w, http.StatusUnauthorized, detail("invalid admin token"))
	default:
		hotkey, b, ok = h.signed(w, r, coordinator.MaxCreate)
	}
	var in coordinator.NewTask
	if !ok || !decode(w, b, false, &in) {
		return
	}
	var v *coordinator.TaskView
	var err error
	if hotkey == "" {
		v, err = h.Coordinator.Create(r.Context(), in)
	} else {
		v, err = h.Coordinator.CreateBy(r.Context(), hotkey, in)
	}
	var no *coordinator.Refusal
	if errors.As(err, &no) {
		h.fail(w, r, err)
		return
	}
	h.send(w, r, v, err)
}

func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.Snapshot(r.Context())
	h.send(w, r, v, err)
}

func (h *handler) policy(w http.ResponseWriter, r *http.Request) {
	v, err := h.Coordinator.RewardPolicy(r.Context())
	h.send(w, r, v, err)
}

func (h *handler) putPolicy(w http.ResponseWriter, r *http.Request) {
	b, ok := h.body(w, r, maxSmall)
	var in coordinator.RewardPolicy
	if !ok || !decode(w, b, false, &in) {
		return
	}
	v, err := h.Coordinator.SetRewardPolicy(r.Context(), in)
	h.send(w, r, v, err)
}
