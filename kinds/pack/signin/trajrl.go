// Package signin checks the signed messages of TrajectoryRL, and says which bytes
// they sign.
package signin

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/dialect"
)

const trajrlWindow = 300 * time.Second

// TrajectoryRL is one purpose of that system's signed messages
// (spec/trajectoryrl.md 5.6). The fields stand in the body, the query or a form,
// so the route reads them. The purpose is the message's prefix: a signature of one route does not
// hold at another. The body is not covered: where one that somebody has changed would be kept,
// the signature is taken once.
type TrajectoryRL struct {
	Purpose string
	status  int  // of a signature that does not hold
	miner   bool // asks for a miner, else for a validator
	// memberFirst answers "not a validator" before it looks at the signature.
	memberFirst bool
	read        bool
	once        bool // each signature is accepted once, also where Verifier.Strict is off
}

// The purposes, with what their routes answer.
var (
	EpochCurrent     = TrajectoryRL{Purpose: "trajectoryrl-epoch-current", status: 401, read: true} // a refusal only hides URLs
	ChallengeScore   = TrajectoryRL{Purpose: "trajectoryrl-challenge-score", status: 401, memberFirst: true}
	ScenarioProgress = TrajectoryRL{Purpose: "trajectoryrl-scenario-progress", status: 401, memberFirst: true}
	Heartbeat        = TrajectoryRL{Purpose: "trajectoryrl-heartbeat", status: 401}
	Logs             = TrajectoryRL{Purpose: "trajectoryrl-logs", status: 403, once: true}
	Submit           = TrajectoryRL{Purpose: "trajectoryrl-submit", status: 401, once: true}
	MinerSubmit      = TrajectoryRL{Purpose: "trajectoryrl-miner-submit", status: 403, miner: true, once: true}
	Report           = TrajectoryRL{Purpose: "trajectoryrl-report", status: 403, read: true}
	Consensus        = TrajectoryRL{Purpose: "trajectoryrl-consensus", status: 401, once: true}
	Snapshot         = TrajectoryRL{Purpose: "trajectoryrl-snapshot", status: 401, read: true}
)

// Fields are the signed fields of a message, as text.
type Fields struct {
	Hotkey, Timestamp, Signature string
	// More is what else the purpose names: the epoch of a score, epoch and scenario of progress.
	More []string
}

func trajrlRefuse(status int, text string, err error) *dialect.Refusal {
	return &dialect.Refusal{Status: status, Code: text, Err: err, Body: struct {
		Success bool   `json:"success"`
		Error   string `json:"error"`
	}{false, text}}
}

// Check checks one message. Membership follows from the purpose; need adds to it.
func (p TrajectoryRL) Check(ctx context.Context, v *dialect.Verifier, f Fields, need dialect.Need) (dialect.Identity, *dialect.Refusal) {
	if f.Hotkey == "" || f.Timestamp == "" || f.Signature == "" {
		who := "validator_hotkey"
		switch {
		case p.miner:
			who = "miner_hotkey"
		case p.Purpose == Heartbeat.Purpose:
			who = "hotkey"
		}
		return dialect.Identity{}, trajrlRefuse(p.status, who+", timestamp, and signature are required", nil)
	}
	pub, err := auth.ParseSS58(f.Hotkey)
	if err != nil {
		return dialect.Identity{}, trajrlRefuse(p.status, "Invalid hotkey", err)
	}
	need.Registered = true
	need.Validator = need.Validator || !p.miner
	var member dialect.Member
	admit := func() *dialect.Refusal {
		m, standing, err := v.Standing(ctx, f.Hotkey, need)
		member = m
		return p.standing(standing, err)
	}
	if p.memberFirst {
		if refusal := admit(); refusal != nil {
			return dialect.Identity{}, refusal
		}
	}
	seconds, ok := dialect.Decimal(f.Timestamp)
	now, at := v.Now(), time.Unix(seconds, 0)
	if !ok {
		return dialect.Identity{}, trajrlRefuse(p.status, "Invalid timestamp", nil)
	}
	if !dialect.Near(time.Unix(now.Unix(), 0), at, trajrlWindow) {
		return dialect.Identity{}, trajrlRefuse(p.status, "Timestamp outside the 300 s window", nil)
	}
	for _, m := range f.More {
		if strings.Contains(m, ":") {
			return dialect.Identity{}, trajrlRefuse(400, "A signed field contains a colon", nil)
		}
	}
	sig, err := dialect.Unhex(f.Signature, auth.SignatureSize)
	if err != nil || !dialect.Holds(pub, sig, Message(p.Purpose, f.Hotkey, f.Timestamp, f.More...)) {
		return dialect.Identity{}, trajrlRefuse(p.status, "Invalid signature", err)
	}
	if p.once || v.Strict && !p.read { // clients sign each request anew
		fresh, err := v.OnceSigned(ctx, p.Purpose, f.Hotkey, sig, now.Add(2*trajrlWindow+time.Second))
		if err != nil {
			return dialect.Identity{}, trajrlRefuse(500, "Internal server error", err)
		}
		if !fresh {
			return dialect.Identity{}, trajrlRefuse(p.status, "Signature was used before", nil)
		}
	}
	if !p.memberFirst {
		if refusal := admit(); refusal != nil {
			return dialect.Identity{}, refusal
		}
	}
	return dialect.Identity{Hotkey: f.Hotkey, Dialect: p.Purpose, At: at, Member: member}, nil
}

func (p TrajectoryRL) standing(s dialect.Standing, err error) *dialect.Refusal {
	switch {
	case s == dialect.StandingGood:
		return nil
	case errors.Is(err, dialect.ErrStale):
		return trajrlRefuse(503, "Metagraph is too old", err)
	case s == dialect.StandingUnknown:
		return trajrlRefuse(500, "Internal server error", err)
	case s == dialect.StandingBanned:
		return trajrlRefuse(403, "Hotkey is banned", nil)
	case p.miner:
		return trajrlRefuse(403, "miner_hotkey is not a registered miner on-chain", nil)
	default:
		return trajrlRefuse(403, "Hotkey is not a registered validator on-chain", nil)
	}
}
