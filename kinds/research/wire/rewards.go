package wire

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/agon-arena/agon/auth/dialect"
	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/signin"
)

// rewardRoutes are the reward packages: the pool's under /claims, and ours.
func (h *handler) rewardRoutes() []route {
	const v1 = "/api/v1"
	out := []route{
		{"GET", "/claims/health", public, "are packages served", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]string{"status": "ok"}) }},
		{"GET", "/claims/epochs", public, "published epochs", h.epochs},
		{"POST", v1 + "/rewards/epochs", byAdmin, "publish the next epoch; once for each Idempotency-Key", h.admin(func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.Publish(r.Context(), r.Header.Get("Idempotency-Key"))
			h.send(w, r, v, err)
		})},
		{"GET", v1 + "/miners/recipient-coldkey/{hotkey}", public, "where a hotkey's rewards go", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.RecipientOf(r.Context(), r.PathValue("hotkey"))
			h.send(w, r, v, err)
		}},
	}
	for _, p := range []string{"/claims/epoch", "/claims/epoch/{id}", v1 + "/rewards/epochs/{id}"} {
		out = append(out, route{"GET", p, public, "evidence of an epoch", h.epoch})
	}
	for _, p := range []string{"/claims/epoch", "/claims/epoch/{id}"} {
		for _, word := range []string{"proof", "claim"} {
			out = append(out, route{"GET", p + "/" + word + "/{hotkey}", public, "one claim with its proof", h.claimPackage})
		}
	}
	for _, m := range []string{"PUT", "POST"} {
		for _, p := range []string{v1 + "/miners/recipient-coldkey", v1 + "/miners/coldkey_address/update", "/coldkey_address/update"} {
			out = append(out, route{m, p, byHotkey, "set where one's rewards go", h.recipient})
		}
	}
	return out
}

func (h *handler) epochs(w http.ResponseWriter, r *http.Request) {
	list, err := h.Coordinator.Epochs(r.Context())
	var last *int
	if len(list) > 0 {
		last = &list[len(list)-1]
	}
	h.send(w, r, map[string]any{"epochs": list, "default_epoch": last}, err)
}

// epochID reads {id}; -1 is the newest. ok is false when it has answered.
func epochID(w http.ResponseWriter, r *http.Request) (int, bool) {
	s := r.PathValue("id")
	if s == "" || s == "latest" {
		return -1, true
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		reply(w, http.StatusUnprocessableEntity, detail(map[string]string{"error": "bad_epoch", "message": "an epoch is a number from 0"}))
		return 0, false
	}
	return n, true
}

func (h *handler) epoch(w http.ResponseWriter, r *http.Request) {
	if n, ok := epochID(w, r); ok {
		v, err := h.Coordinator.Epoch(r.Context(), n)
		h.send(w, r, v, err)
	}
}

func (h *handler) claimPackage(w http.ResponseWriter, r *http.Request) {
	if n, ok := epochID(w, r); ok {
		v, err := h.Coordinator.PackageOf(r.Context(), n, r.PathValue("hotkey"))
		h.send(w, r, v, err)
	}
}

// recipient takes either form of signature: the whole request by BT-AUTH-V1, or
// the pool's X-Key, X-Timestamp and X-Signature over the recipient alone.
func (h *handler) recipient(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("X-Hotkey") == "" && r.Header.Get("X-Key") == "" {
		reply(w, http.StatusUnauthorized, detail("missing auth headers"))
		return
	}
	b, ok := h.body(w, r, maxSmall)
	if !ok {
		return
	}
	var in struct {
		Recipient string          `json:"recipient_coldkey"`
		Alias     string          `json:"coldkey_address"`
		Hotkey    string          `json:"hotkey"`
		Timestamp json.RawMessage `json:"timestamp"`
		Signature string          `json:"signature"`
	}
	if !decode(w, b, false, &in) {
		return
	}
	coldkey := in.Recipient
	if coldkey == "" {
		coldkey = in.Alias
	}
	req := dialect.NewRequest(r, b)
	var id dialect.Identity
	var no *dialect.Refusal
	if r.Header.Get("X-Hotkey") != "" {
		id, no = h.Verifier.Verify(r.Context(), req, dialect.Need{})
	} else {
		id, no = signin.BitSota{}.CheckRecipient(r.Context(), h.Verifier, req, dialect.Need{}, r.Header.Get("X-Key"), r.Header.Get("X-Timestamp"), r.Header.Get("X-Signature"), coldkey)
	}
	if no != nil {
		_ = no.Write(w) // the caller is gone if this fails
		return
	}
	v, err := h.Coordinator.SetRecipient(r.Context(), id.Hotkey, coldkey)
	h.send(w, r, v, err)
}

// sotaRoutes are the emission roots of the later era.
func (h *handler) sotaRoutes() []route {
	const sota = "/api/v1/sota"
	return []route{
		{"POST", sota + "/subnets", byAdmin, "open a lane of emissions", h.admin(func(w http.ResponseWriter, r *http.Request) {
			b, ok := h.body(w, r, maxSmall)
			var in coordinator.Lane
			if !ok || !decode(w, b, false, &in) {
				return
			}
			v, err := h.Coordinator.MakeLane(r.Context(), in)
			h.send(w, r, v, err)
		})},
		{"POST", sota + "/subnets/{lane}/epochs/{n}/root", byAdmin, "publish the root of an epoch", h.admin(func(w http.ResponseWriter, r *http.Request) {
			n, ok := epochNumber(w, r)
			if !ok {
				return
			}
			b, ok := h.body(w, r, maxSmall)
			var in struct {
				Proofs bool `json:"include_proofs"`
			}
			if !ok || !decode(w, b, true, &in) {
				return
			}
			v, err := h.Coordinator.Emit(r.Context(), r.PathValue("lane"), n, in.Proofs)
			h.send(w, r, v, err)
		})},
		{"GET", sota + "/subnets/{lane}/epochs/{n}/evidence", public, "all that a root is made of", func(w http.ResponseWriter, r *http.Request) {
			if n, ok := epochNumber(w, r); ok {
				v, err := h.Coordinator.Emission(r.Context(), r.PathValue("lane"), n)
				h.send(w, r, v, err)
			}
		}},
		{"GET", sota + "/emission-roots", public, "list published roots", func(w http.ResponseWriter, r *http.Request) {
			v, err := h.Coordinator.EmissionRoots(r.Context(), r.URL.Query().Get("subnet_id"), limit(r))
			h.send(w, r, v, err)
		}},
	}
}

// epochNumber reads {n}. ok is false when it has answered.
func epochNumber(w http.ResponseWriter, r *http.Request) (uint64, bool) {
	n, err := strconv.ParseUint(r.PathValue("n"), 10, 32)
	if err != nil {
		reply(w, http.StatusUnprocessableEntity, detail(map[string]string{"error": "bad_epoch", "message": "an epoch is a number from 0"}))
	}
	return n, err == nil
}
