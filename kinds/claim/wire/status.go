package wire

import (
	"encoding/hex"
	"net/http"
	"time"

	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/kinds/claim/signin"
)

// StatusTime is the header of a request whose status is to be proved.
const StatusTime = "X-Harnyx-Status-Ts"

var statusTime = lazyregexp.New(`^[0-9A-Za-z:.+-]{1,64}$`)

// status is GET /validator/status. It is open, as in the original; with the header it is
// signed by the validator's hotkey, over the time that the header names.
func (v *Validator) status(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	s, running, queued := v.last, v.running != "", len(v.queue)
	v.mu.Unlock()
	if running {
		queued--
	}
	word := "idle"
	switch {
	case running:
		word = "running"
	case s.err != "":
		word = "error"
	}
	var at time.Time
	weightError := ""
	if v.cfg.Weights != nil {
		at, weightError = v.cfg.Weights()
	}
	out := map[string]any{
		"status": word, "last_batch_id": text(s.batch), "last_started_at": when(s.started), "last_completed_at": when(s.completed), "running": running,
		"queued_batches": queued, "last_error": text(s.err), "last_weight_submission_at": when(at), "last_weight_error": text(weightError),
	}
	if v.cfg.Key != nil {
		out["hotkey"] = v.cfg.Key.SS58()
		if at := r.Header.Get(StatusTime); statusTime().MatchString(at) {
			sig, err := v.cfg.Key.Sign(signin.StatusMessage(at, v.cfg.Key.SS58(), word, running))
			if err != nil {
				v.cfg.Log.Error("signing the status", "err", err)
				reply(w, http.StatusInternalServerError, map[string]string{"detail": "the status cannot be signed"})
				return
			}
			out["signature_hex"] = hex.EncodeToString(sig)
		}
	}
	reply(w, http.StatusOK, out)
}

// Words of readyz.
const (
	WaitingForRegistration = "waiting_for_platform_registration"
	RegistrationFailed     = "registration_failed"
)

// readyz is GET /readyz: 503 until the platform knows of the validator.
func (v *Validator) readyz(w http.ResponseWriter, _ *http.Request) {
	if v.cfg.Ready != nil {
		if why := v.cfg.Ready(); why != "" {
			reply(w, http.StatusServiceUnavailable, map[string]string{"status": why})
			return
		}
	}
	reply(w, http.StatusOK, map[string]string{"status": "ok"})
}
