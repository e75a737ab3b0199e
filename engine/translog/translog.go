// Package translog is the transparency log: what a platform has taken in,
// scored and decided, as leaves of a Merkle tree whose head is signed. Whoever
// keeps an old head sees every later change of what stood before it.
//
// The form on disk and on the wire is C2SP's: tlog-tiles (tiles of 256 hashes,
// bundles of entries), tlog-checkpoint, signed notes, and cosignatures of
// witnesses (tlog-cosignature v1). The tree's arithmetic is
// golang.org/x/mod/sumdb/tlog.
package translog

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/internal/lazyregexp"
	"github.com/agon-arena/agon/internal/plain"
)

// Types of leaves.
const (
	TypeSubmission = "submission" // id: the submission
	TypeResult     = "result"     // id: RUN/ATTEMPT
	TypeDecision   = "decision"   // id: the challenger's submission
	TypeOperator   = "operator"   // id: what the act was about
	TypeLoss       = "loss"       // id: the first leaf that was lost
	TypeKey        = "key"        // id: the key that follows this one
	TypeSeeds      = "seeds"      // id: ARENA/PERIOD
	TypeReveal     = "reveal"     // id: ARENA/PERIOD/secret
	TypeJudging    = "judging"    // id: the judging
	TypeTask       = "task"       // id: ARENA/TASK
	TypeRetired    = "retired"    // id: ARENA/TASK/opened
	TypeSet        = "set"        // id: ARENA/PERIOD/set
)

// TaskID names the leaf of a hidden task's commitment, or of what opens it.
func TaskID(typ, arena, task string) string {
	id := arena + "/" + task
	if typ == TypeRetired {
		id += "/opened"
	}
	return id
}

// SetID names the leaf of the commitments of a period's tasks.
func SetID(arena string, period int64) string { return fmt.Sprintf("%s/%d/set", arena, period) }

// SeedsID names the leaf of a set period's commitment, or of its secret.
func SeedsID(typ, arena string, period int64) string {
	id := fmt.Sprintf("%s/%d", arena, period)
	if typ == TypeReveal {
		id += "/secret"
	}
	return id
}

// MaxEntry bounds an entry in bytes: a bundle gives its length in 16 bits.
const MaxEntry = 1<<16 - 1

// Entry is what the log says of one fact. Body is what everybody may read of
// it; Commitment binds what only some may: HMAC-SHA-256 with a salt of 16
// bytes over its JSON (Commit). Who may read the fact gets the salt.
type Entry struct {
	Type       string          `json:"type"`
	ID         string          `json:"id"`
	Arena      string          `json:"arena,omitempty"`
	At         time.Time       `json:"at"`
	Body       json.RawMessage `json:"body,omitempty"`
	Commitment agon.Digest     `json:"commitment,omitempty"`
}

// Leaf is an entry on its way to the log and after.
type Leaf struct {
	Index int64  // its place in the log, from 0
	Entry []byte // JSON of an Entry
	Type  string
	ID    string
	Salt  string // hex; empty: all of it is public
}

// NewLeaf makes the entry of a leaf, which has an index, a type, an id and a
// salt: open is public (nil: nothing is), secret is bound by a commitment (nil:
// there is none).
func NewLeaf(l Leaf, arena string, at time.Time, open, secret any) (Leaf, error) {
	e := Entry{Type: l.Type, ID: l.ID, Arena: arena, At: at.UTC()}
	var err error
	if open != nil {
		if e.Body, err = json.Marshal(open); err != nil {
			return l, fmt.Errorf("encode leaf: %w", err)
		}
	}
	if secret != nil {
		if e.Commitment, err = Commit(l.Salt, secret); err != nil {
			return l, err
		}
	}
	if l.Entry, err = json.Marshal(e); err != nil {
		return l, fmt.Errorf("encode leaf: %w", err)
	}
	if len(l.Entry) > MaxEntry {
		return l, fmt.Errorf("encode leaf: %d bytes, at most %d", len(l.Entry), MaxEntry)
	}
	return l, nil
}

var saltForm = lazyregexp.New(`^[0-9a-f]{32}$`)

// Commit binds v: HMAC-SHA-256 over its JSON, keyed with the 16 bytes of salt (hex).
func Commit(salt string, v any) (agon.Digest, error) {
	if !saltForm().MatchString(salt) {
		return "", errors.New("a salt is 32 hex digits")
	}
	key, err := hex.DecodeString(salt)
	if err != nil {
		return "", fmt.Errorf("read salt: %w", err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("encode what is committed to: %w", err)
	}
	m := hmac.New(sha256.New, key)
	m.Write(b)
	return agon.Digest("sha256:" + hex.EncodeToString(m.Sum(nil))), nil
}

// ParseEntry reads an entry of a log that nobody is trusted for.
func ParseEntry(b []byte) (Entry, error) {
	var e Entry
	if len(b) > MaxEntry {
		return e, fmt.Errorf("read entry: %d bytes, at most %d", len(b), MaxEntry)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, fmt.Errorf("read entry: %w", err)
	}
	if d.More() || e.Type == "" || e.ID == "" {
		return e, errors.New("read entry: it needs a type and an id, and ends after them")
	}
	return e, nil
}

// Submission is what a submission's leaf commits to.
type Submission struct {
	ID      string      `json:"id"`
	Arena   string      `json:"arena"`
	Miner   string      `json:"miner"`
	Coldkey string      `json:"coldkey"`
	Digest  agon.Digest `json:"digest"`
	Name    string      `json:"name"`
	Licence string      `json:"licence"`
	At      time.Time   `json:"at"`
	Period  *int64      `json:"period,omitempty"` // of the arena's seeds
	Block   uint64      `json:"block,omitempty"`  // whose hash is the beacon
}

// SubmissionOf is what stands of s when it was entered.
func SubmissionOf(s agon.Submission) Submission {
	x := Submission{ID: s.ID, Arena: s.Arena, Miner: s.Miner, Coldkey: s.Coldkey, Digest: s.Digest, Name: s.Name, Licence: s.Licence, At: s.CreatedAt.UTC()}
	if b := s.Beacon; b != nil && b.Period >= 0 {
		x.Period, x.Block = &b.Period, b.Block
	}
	return x
}

// Result is what the leaf of an attempt's result commits to: all that is later
// shown of it.
type Result struct {
	Run       agon.Digest   `json:"run"` // of what was to be played (RunDigest)
	Attempt   agon.Attempt  `json:"attempt"`
	Scores    []agon.Score  `json:"scores,omitempty"` // as they were given
	Events    int64         `json:"events"`
	EventHead agon.Digest   `json:"event_head,omitempty"` // HeadOf of the last event
	Receipts  []agon.Digest `json:"receipts,omitempty"`   // of the stored receipts, by id
}

// ResultOf puts the parts of a result in the form that is committed to. Whether
// a result counts can change when others judge it again, and is not part of it.
func ResultOf(run agon.RunSpec, policy agon.Digest, submission string, a agon.Attempt, scores []agon.Score, events int64, head agon.Digest, receipts []agon.Receipt) (Result, error) {
	a.Counted = false
	a.LeasedAt, a.EndedAt = a.LeasedAt.UTC(), a.EndedAt.UTC()
	a.LeaseUntil = time.Time{}
	a.Reason = plain.Storable(a.Reason)
	if len(a.Driver.Limits) == 0 {
		a.Driver.Limits = nil
	}
	r := Result{Attempt: a, Scores: append([]agon.Score(nil), scores...), Events: events, EventHead: head}
	for i := range r.Scores {
		s := &r.Scores[i]
		s.Detail, s.Scorer = plain.Storable(s.Detail), plain.Storable(s.Scorer)
		if len(s.Metrics) == 0 {
			s.Metrics = nil
		}
	}
	sortBy(r.Scores, func(s agon.Score) string { return s.Task })
	receipts = append([]agon.Receipt(nil), receipts...)
	sortBy(receipts, func(r agon.Receipt) string { return r.ID })
	for _, x := range receipts {
		b, err := json.Marshal(x)
		if err != nil {
			return r, fmt.Errorf("encode receipt: %w", err)
		}
		r.Receipts = append(r.Receipts, agon.Sum(b))
	}
	var err error
	r.Run, err = RunDigest(run, policy, submission)
	return r, err
}

// RunDigest names what was to be played: tasks, replica, seed, rival, and the
// policy by its digest (PolicyDigest of the platform: SHA-256 of its JSON).
func RunDigest(r agon.RunSpec, policy agon.Digest, submission string) (agon.Digest, error) {
	r.Policy = agon.Policy{}
	b, err := json.Marshal([]any{"agon-run-v1", submission, policy, r})
	if err != nil {
		return "", fmt.Errorf("encode run: %w", err)
	}
	return agon.Sum(b), nil
}

// HeadOf is the running hash of an attempt's events: it binds each column of
// each, in the order of their numbers. Data counts as compact JSON, which is the
// same before and after it went over HTTP.
func HeadOf(prev agon.Digest, e agon.Event) agon.Digest {
	data, err := json.Marshal(e.Data)
	if err != nil {
		data = e.Data // not JSON: it never went over HTTP
	}
	h := sha256.New()
	fmt.Fprintf(h, "agon-event-v1\n%s\n%s\n%d\n%d\n%d\n%q\n%q\n%d\n", prev, e.Run, e.Attempt, e.Seq, e.At.UnixMicro(), e.Task, e.Type, len(data))
	h.Write(data)
	return agon.Digest("sha256:" + hex.EncodeToString(h.Sum(nil)))
}

func sortBy[T any](list []T, key func(T) string) {
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(key(a), key(b)) })
}
