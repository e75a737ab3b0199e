// Package seeds derives random seeds: for runs, for what an engine draws, and
// for what kinds draw.
//
// The seeds of an arena's runs are an HMAC with a secret that is committed to
// when a set period opens and shown when it ends, over a beacon that nobody knew
// when the submission was accepted: nobody can know them before, nor choose
// them, and everybody can compute them afterwards.
package seeds

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/calc"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Derive makes a seed from labelled parts, domain-separated: the same
// parts give the same seed everywhere. The result is in [0, 2^53).
func Derive(domain string, parts ...string) int64 {
	h := sha256.Sum256(labelled("agon-seed-v1\n", append([]string{domain}, parts...)...))
	return number(h[:])
}

// labelled writes parts with their lengths, so that they cannot run together.
func labelled(domain string, parts ...string) []byte {
	b := []byte(domain)
	for _, p := range parts {
		b = strconv.AppendInt(b, int64(len(p)), 10)
		b = append(b, ':')
		b = append(b, p...)
	}
	return b
}

// number is the beginning of a hash, exact in every language's numbers.
func number(h []byte) int64 { return int64(binary.BigEndian.Uint64(h[:8]) >> 11) }

// NewSecret draws the secret of a period: 32 bytes in hex.
func NewSecret() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

var secretForm = lazyregexp.New(`^[0-9a-f]{64}$`)

func secretBytes(secret string) ([]byte, error) {
	if !secretForm().MatchString(secret) {
		return nil, &agon.Error{Code: "bad_secret", Status: 422, Field: "secret", Limit: "64 hex digits", Message: "a secret is 32 bytes in lower-case hex"}
	}
	return hex.DecodeString(secret)
}

// Commitment binds a secret before it is shown: SHA-256 of its 32 bytes.
func Commitment(secret string) (agon.Digest, error) {
	b, err := secretBytes(secret)
	if err != nil {
		return "", err
	}
	return agon.Sum(b), nil
}

// World is the secret that a set is drawn by where a beacon is mixed in: SHA-256 of the
// secret's bytes and of the beacon's, in hex.
func World(secret string, randomness []byte) (string, error) {
	b, err := secretBytes(secret)
	if err != nil {
		return "", err
	}
	return agon.Sum(append(b, randomness...)).Hex(), nil
}

// Source is what a seed comes of besides the secret.
type Source struct {
	Beacon     string `json:"beacon"` // what nobody knew when the submission was accepted; "": the arena has none
	Arena      string `json:"arena"`
	Submission string `json:"submission"` // of a pair: the challenger's
	Round      int64  `json:"round"`      // of pairs, from 1; 0: the submission's own runs
	Task       string `json:"task"`       // Task of a run; "tasks": what a round draws its tasks with
}

// Of derives the seed of a source: HMAC-SHA-256 with the secret as key, the
// first 53 bits. The result is in [0, 2^53).
func Of(secret string, s Source) (int64, error) {
	key, err := secretBytes(secret)
	if err != nil {
		return 0, err
	}
	if s.Round < 0 {
		return 0, &agon.Error{Code: "bad_round", Status: 422, Field: "round", Limit: "0 or more", Message: fmt.Sprintf("a round is %d", s.Round)}
	}
	m := hmac.New(sha256.New, key)
	m.Write(labelled("agon-seed-v2\n", s.Beacon, s.Arena, s.Submission, strconv.FormatInt(s.Round, 10), s.Task))
	return number(m.Sum(nil)), nil
}

// Task names what a run plays: the keys of its tasks, a line each, and "#N" after
// them for the replica N, if it is not 0.
func Task(keys []string, replica int) string {
	s := strings.Join(keys, "\n")
	if replica > 0 {
		s += "\n#" + strconv.Itoa(replica)
	}
	return s
}

// TaskOf names a run as its seed knows it. Validators that repeat one replay
// get one seed.
func TaskOf(a agon.Arena, r agon.RunSpec) string {
	keys := make([]string, len(r.Tasks))
	for i, t := range r.Tasks {
		keys[i] = t.Key
	}
	if a.Contest != nil {
		return Task(keys, 0)
	}
	return Task(keys, r.Replica)
}

// SourceOf says what the seed of a run comes of, as everybody can read it;
// b is the beacon of the submission that it names.
func SourceOf(a agon.Arena, r agon.RunSpec, submission string, b agon.Beacon) Source {
	s := Source{Beacon: b.Hash, Arena: a.ID, Submission: submission, Task: TaskOf(a, r)}
	if r.Title != nil { // its secret is that of the period that the title names
		s.Beacon = r.Title.Beacon
	}
	if r.Rival != nil {
		s.Round = int64(r.Rival.Round)
		if r.Rival.Side == agon.SideIncumbent {
			s.Submission = r.Rival.Submission
		}
	}
	return s
}

var saltForm = lazyregexp.New(`^[0-9a-f]{32}$`)

// TaskCommitment binds a hidden task before its digest is shown: HMAC-SHA-256
// with the 16 bytes of the salt (hex) as key over the digest's text.
func TaskCommitment(salt string, d agon.Digest) (agon.Digest, error) {
	if !saltForm().MatchString(salt) {
		return "", &agon.Error{Code: "bad_salt", Status: 422, Field: "salt", Limit: "32 hex digits", Message: "a salt is 16 bytes in lower-case hex"}
	}
	if err := d.Validate(); err != nil {
		return "", &agon.Error{Code: "bad_digest", Status: 422, Field: "digest", Message: err.Error()}
	}
	key, err := hex.DecodeString(salt)
	if err != nil {
		return "", fmt.Errorf("read salt: %w", err)
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(d))
	return agon.Digest("sha256:" + hex.EncodeToString(m.Sum(nil))), nil
}

// Rules are this package's rules for agon calc.
func Rules() []calc.Rule {
	type commitIn struct {
		Secret string `json:"secret"`
	}
	type commitOut struct {
		Commitment agon.Digest `json:"commitment"`
	}
	type deriveIn struct {
		Secret string `json:"secret"`
		Source
	}
	type deriveOut struct {
		Seed int64 `json:"seed"`
	}
	type taskIn struct {
		Salt   string      `json:"salt"`
		Digest agon.Digest `json:"digest"`
	}
	return []calc.Rule{
		calc.Func("seed.commit", "{secret: 64 hex digits} -> {commitment}: SHA-256 of its bytes", func(x commitIn) (commitOut, error) {
			c, err := Commitment(x.Secret)
			return commitOut{c}, err
		}),
		calc.Func("seed.derive", "{secret, beacon, arena, submission, round, task} -> {seed}: the seed of a run; task: the keys of its tasks, a line each", func(x deriveIn) (deriveOut, error) {
			n, err := Of(x.Secret, x.Source)
			return deriveOut{n}, err
		}),
		calc.Func("set.difficulty", "what the log says of a set: {level, rule: {least, most, first, target, band}, before, reached: {period, level, submission, solved, tasks}} -> {level} that follows", func(x agon.SetDifficulty) (levelOut, error) {
			return levelOf(x)
		}),
		calc.Func("task.commit", "{salt: 32 hex digits, digest} -> {commitment} of a hidden task", func(x taskIn) (commitOut, error) {
			c, err := TaskCommitment(x.Salt, x.Digest)
			return commitOut{c}, err
		}),
	}
}

type levelOut struct {
	Level int `json:"level"`
}

// levelOf is the level of a set by what the log says that it follows from.
func levelOf(x agon.SetDifficulty) (levelOut, error) {
	bad := func(field, message string) (levelOut, error) {
		return levelOut{}, &agon.Error{Code: "bad_difficulty", Status: 422, Field: field, Message: message}
	}
	if field, message := x.Rule.Mistake(math.MaxInt); field != "" {
		return bad("rule."+field, message)
	}
	if x.Before == 0 && x.Reached == nil {
		return levelOut{x.Rule.Start()}, nil
	}
	if x.Before < 1 {
		return bad("before", fmt.Sprintf("%d: want the level of the set before, from 1", x.Before))
	}
	if x.Reached == nil {
		return levelOut{x.Rule.Next(x.Before, 0, 0)}, nil
	}
	if r := x.Reached; r.Tasks < 1 || r.Tasks > agon.MostSetTasks || r.Solved < 0 || r.Solved > r.Tasks {
		return bad("reached", fmt.Sprintf("%d of %d tasks solved: want 1 to %d tasks, and not more solved", r.Solved, r.Tasks, agon.MostSetTasks))
	}
	return levelOut{x.Rule.Next(x.Before, x.Reached.Solved, x.Reached.Tasks)}, nil
}
