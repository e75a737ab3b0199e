package coordinator

import (
	"encoding/json"
	"fmt"
	"time"

	kr "github.com/agon-arena/agon/kinds/research/play"
)

// Time is written as the coordinator's clients know it: ISO 8601 in UTC,
// microseconds, no zone.
type Time struct{ time.Time }

const timeForm = "2006-01-02T15:04:05.000000"

// MarshalJSON implements json.Marshaler; the zero time is null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(t.UTC().Format(timeForm))
}

// UnmarshalJSON implements json.Unmarshaler.
func (t *Time) UnmarshalJSON(b []byte) error {
	var s *string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == nil || *s == "" {
		t.Time = time.Time{}
		return nil
	}
	v, err := time.Parse(timeForm, *s)
	if err != nil {
		if v, err = time.Parse(time.RFC3339Nano, *s); err != nil {
			return fmt.Errorf("time %.40q: want ISO 8601", *s)
		}
	}
	t.Time = v.UTC()
	return nil
}

// Refusal is a no in the coordinator's words.
type Refusal struct {
	Status  int
	Code    string
	Message string
	// Plain answers with Message alone, for texts that clients compare.
	Plain   bool
	Context map[string]any
}

func (r *Refusal) Error() string { return r.Code + ": " + r.Message }

func refuse(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

func (r *Refusal) with(key string, v any) *Refusal {
	if r.Context == nil {
		r.Context = map[string]any{}
	}
	r.Context[key] = v
	return r
}

func notFound(what, id string) *Refusal {
	return refuse(404, "not_found", "no %s %.80q", what, id)
}

// Task states.
const (
	StateLive   = "live"
	StatePaused = "paused"
	StateClosed = "closed"
)

// TaskView is a task as the public sees it.
type TaskView struct {
	ID string `json:"id"`
	kr.Task
	RepositoryURL string `json:"repository_url"`
	BaseSHA       string `json:"base_commit_sha"`
	State         string `json:"task_state"`
	Active        bool   `json:"is_active"`
	Arena         string `json:"arena"`
	CreatedAt     Time   `json:"created_at"`
}

// Claim statuses.
const (
	ClaimActive    = "active"
	ClaimCancelled = "cancelled"
	ClaimSubmitted = "submitted"
	ClaimExpired   = "expired"
)

// Claim is a miner's reservation of an attempt.
type Claim struct {
	ID           string  `json:"id"`
	TaskID       string  `json:"task_id"`
	Miner        string  `json:"miner_hotkey"`
	Status       string  `json:"status"`
	Description  string  `json:"claim_description"`
	Base         *string `json:"base_submission_id"`
	WorkItem     *string `json:"work_item_id"`
	SubmissionID *string `json:"submission_id"`
	CreatedAt    Time    `json:"created_at"`
	ExpiresAt    Time    `json:"expires_at"`
}

// Submission is what a miner entered, as the public sees it. The patch is not in it.
type Submission struct {
	ID             string                     `json:"id"`
	TaskID         string                     `json:"task_id"`
	ClaimID        string                     `json:"claim_id"`
	Miner          string                     `json:"miner_hotkey"`
	Status         string                     `json:"status"`
	BaseRef        string                     `json:"base_ref"`
	BaseSHA        string                     `json:"base_commit_sha"`
	Summary        string                     `json:"summary"`
	ClaimedMetrics map[string]json.RawMessage `json:"claimed_metrics"`
	Observed       map[string]float64         `json:"observed_metrics"`
	ProposedIdea   *string                    `json:"proposed_idea"`
	Implemented    *string                    `json:"implemented_submission_id"`
	ArtifactURI    *string                    `json:"artifact_uri"`
	ArtifactSHA256 *string                    `json:"artifact_sha256"`
	ArtifactBytes  *int64                     `json:"artifact_size_bytes"`
	PatchBytes     int                        `json:"patch_bytes"`
	PatchDigest    string                     `json:"patch_digest"` // of what the patch makes of the base
	DuplicateOf    *string                    `json:"duplicate_of"`
	Reason         string                     `json:"status_reason"`
	// Best says how it stood against the incumbent; absent until decided.
	Best *Best `json:"best,omitempty"`
	// OverClaim is claimed less observed in the direction of better; null until both are known.
	OverClaim *float64 `json:"over_claim"`
	// Replays and Position tell a waiting miner where it stands.
	Replays   *Progress `json:"replays,omitempty"`
	CreatedAt Time      `json:"created_at"`
	UpdatedAt Time      `json:"updated_at"`
	// Files is the tree of patch.diff and claim.json; Log the miner's own.
	Files string `json:"files_digest"`
	Log   string `json:"-"`
}

// Best is the decision on a submission.
type Best struct {
	Took      bool               `json:"took_best"`
	Incumbent string             `json:"incumbent,omitempty"`
	Rule      string             `json:"rule"`
	Numbers   map[string]float64 `json:"numbers"`
	At        Time               `json:"at"`
}

// Progress is how far the replays of a submission are.
type Progress struct {
	Queued  int `json:"queued"`
	Playing int `json:"playing"`
	Done    int `json:"done"`
	Ahead   int `json:"ahead"` // submissions of the task admitted before it that are undecided
}

// storedSubmission is a submission as the store keeps it.
type storedSubmission struct {
	Submission
	LogText string          `json:"log,omitempty"`
	Coldkey string          `json:"coldkey"`
	Extras  json.RawMessage `json:"extras,omitempty"`
}

// WorkItem statuses.
const (
	ItemOpen      = "open"
	ItemClaimed   = "claimed"
	ItemCompleted = "completed"
)

// WorkItem is something the planner wants tried.
type WorkItem struct {
	ID           string  `json:"id"`
	TaskID       string  `json:"task_id"`
	Kind         string  `json:"kind"`
	Strategy     string  `json:"strategy_key"`
	Title        string  `json:"title"`
	Instructions string  `json:"instructions"`
	Priority     int     `json:"priority"`
	Status       string  `json:"status"`
	ClaimID      *string `json:"claim_id"`
	Base         *string `json:"base_submission_id"`
	CreatedAt    Time    `json:"created_at"`
}

// Verification is one replay of a submission. Its id is that of the job.
type Verification struct {
	ID         string             `json:"id"`
	Submission string             `json:"submission_id"`
	TaskID     string             `json:"task_id"`
	Validator  string             `json:"validator_hotkey"`
	Status     string             `json:"status"` // pending, or how it ended
	Observed   map[string]float64 `json:"observed_metrics"`
	Notes      string             `json:"notes"`
	Duel       bool               `json:"duel"`
	Counted    bool               `json:"counted"`
	Late       bool               `json:"late"`
	Trust      float64            `json:"trust"`
	Deviation  *float64           `json:"deviation"` // from the agreed value, in the metric's unit
	Run        string             `json:"run"`
	Driver     string             `json:"driver"`
	CreatedAt  Time               `json:"created_at"`
	ExpiresAt  Time               `json:"expires_at"`
	EndedAt    Time               `json:"ended_at"`
}

// Verification statuses besides those of submissions.
const (
	VerificationPending = "pending"
	VerificationExpired = "expired"
)

// Record is one entry of the ledger of bests.
type Record struct {
	Submission  string             `json:"submission_id"`
	TaskID      string             `json:"task_id"`
	Slug        string             `json:"slug"`
	Miner       string             `json:"miner_hotkey"`
	Number      int                `json:"number"` // from 1, by task
	Parent      *string            `json:"parent_submission_id"`
	Base        *string            `json:"base_submission_id"` // what the miner says it builds on
	Implemented *string            `json:"implemented_submission_id"`
	Metric      string             `json:"metric_name"`
	Direction   string             `json:"metric_direction"`
	Value       float64            `json:"value"`
	Delta       *float64           `json:"delta"` // against the parent, by the paired replays where there are any
	Band        float64            `json:"noise_band"`
	Observed    map[string]float64 `json:"observed_metrics"`
	Rule        string             `json:"rule"`
	Numbers     map[string]float64 `json:"numbers"`
	PatchDigest string             `json:"patch_digest"`
	Files       string             `json:"files_digest"`
	TaskDigest  string             `json:"task_digest"`
	BaseSHA     string             `json:"base_commit_sha"`
	Replays     []RecordReplay     `json:"replays"`
	At          Time               `json:"at"`
	// Attestation signs all of the above: sr25519 by Signer over "agon-record-v1\n" and Statement.
	Attestation *Attestation `json:"attestation,omitempty"`
}

// RecordReplay is who verified a record, and what it saw.
type RecordReplay struct {
	ID        string  `json:"id"`
	Validator string  `json:"validator_hotkey"`
	Verdict   string  `json:"verdict"`
	Value     float64 `json:"value"`
	Trust     float64 `json:"trust"`
	Agrees    bool    `json:"agrees"`
	Duel      bool    `json:"duel"`
	Driver    string  `json:"driver"`
	Hardware  string  `json:"hardware,omitempty"` // class of the machine: agon.Driver.HardwareClass
}

// Attestation is the coordinator's signature on a record.
type Attestation struct {
	Signer    string `json:"signer"`
	Statement string `json:"statement"` // the record's JSON without this field, as signed
	Signature string `json:"signature"` // hex
}

// Idea is a reward for a proposed idea that another miner implemented.
type Idea struct {
	ID             string  `json:"id"`
	TaskID         string  `json:"task_id"`
	Submission     string  `json:"submission_id"` // the implementation
	Proposal       string  `json:"proposed_submission_id"`
	Proposer       string  `json:"proposer_hotkey"`
	Implementer    string  `json:"implementer_hotkey"`
	ProposerShare  float64 `json:"proposer_share"`
	ImplementShare float64 `json:"implementer_share"`
	Status         string  `json:"status"` // pending, or that of the implementation
	CreatedAt      Time    `json:"created_at"`
}

// Peer is one peer evaluation.
type Peer struct {
	ID         string             `json:"id"`
	Submission string             `json:"submission_id"`
	TaskID     string             `json:"task_id"`
	Evaluator  string             `json:"evaluator_hotkey"`
	Status     string             `json:"status"`
	Observed   map[string]float64 `json:"observed_metrics"`
	Notes      string             `json:"notes"`
	CreatedAt  Time               `json:"created_at"`
}

// Consensus is how the peers of a submission stand.
type Consensus struct {
	Submission     string   `json:"submission_id"`
	Status         string   `json:"status"`
	AcceptedCount  int      `json:"accepted_count"`
	RejectedCount  int      `json:"rejected_count"`
	CommitteeCount int      `json:"committee_count"`
	CommitteeSize  int      `json:"committee_size"`
	Needed         int      `json:"min_peer_evaluations"`
	Value          *float64 `json:"observed_value"`
	Approval       float64  `json:"approval"`
	Committee      []string `json:"committee,omitempty"`
}

func opt(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func val(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
