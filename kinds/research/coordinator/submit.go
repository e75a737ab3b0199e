package coordinator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/blob"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
	"github.com/agon-arena/agon/engine/store"
	"github.com/agon-arena/agon/internal/lazyregexp"
	kr "github.com/agon-arena/agon/kinds/research/play"
	"github.com/agon-arena/agon/kinds/research/surface"
)

// Limits of a submission's fields, in bytes.
const (
	MaxSummary = 8000
	maxIdea    = 16_000
	maxLog     = 128_000
	maxURI     = 2000
	maxMetrics = 100
	// otherBytes is what the other fields of a request may have, escaped.
	otherBytes = 2 << 20
)

// MaxBody bounds a submission's request, in bytes: the largest patch that an
// open task takes, with room to be refused by name, every byte escaped.
func (c *Coordinator) MaxBody() int64 {
	largest := kr.DefaultMaxPatch
	for _, t := range c.list() {
		largest = max(largest, t.pub.MaxPatchBytes)
	}
	return int64(6*largest + otherBytes)
}

// Entry is what a miner submits (spec/bitsota.md 2.5).
type Entry struct {
	ClaimID        string                     `json:"claim_id"`
	BaseRef        string                     `json:"base_ref"`
	Patch          string                     `json:"patch"`
	Summary        string                     `json:"summary"`
	ClaimedMetrics map[string]json.RawMessage `json:"claimed_metrics"`
	ProposedIdea   string                     `json:"proposed_idea"`
	Implemented    string                     `json:"implemented_submission_id"`
	ArtifactURI    string                     `json:"artifact_uri"`
	ArtifactSHA256 string                     `json:"artifact_sha256"`
	ArtifactBytes  *int64                     `json:"artifact_size_bytes"`
	ExecutionLog   string                     `json:"execution_log"`

	// Extras of the later era are kept, and decide nothing.
	EVMMiner        string          `json:"evm_miner_address"`
	RewardAddress   string          `json:"reward_address"`
	Nonce           json.RawMessage `json:"nonce"`
	CompetitionID   string          `json:"competition_id"`
	SubnetID        json.RawMessage `json:"subnet_id"`
	ArtifactHash    string          `json:"artifact_hash"`
	Signature       string          `json:"signature"`
	RewardSignature string          `json:"reward_signature"`
}

var (
	sha256Form = lazyregexp.New(`^[0-9a-f]{64}$`)
	shaForm    = lazyregexp.New(`^[0-9a-f]{7,40}$`)
)

// CheckEntry judges an entry by the task alone, as `agon research check` does
// too: sizes, artifact, base, and the patch by the tree that it makes. It
// returns what the patch changes, nil for an empty one.
func CheckEntry(pub kr.Task, base *surface.Tree, sha string, e *Entry) (*surface.Result, error) {
	for _, f := range []struct {
		name, v string
		limit   int
	}{
		{"summary", e.Summary, MaxSummary},
		{"proposed_idea", e.ProposedIdea, maxIdea},
		{"execution_log", e.ExecutionLog, maxLog},
		{"artifact_uri", e.ArtifactURI, maxURI},
		{"base_ref", e.BaseRef, 255},
		{"implemented_submission_id", e.Implemented, maxID},
	} {
		if err := checkText(f.name, f.v, f.limit); err != nil {
			return nil, err
		}
	}
	if strings.TrimSpace(e.Summary) == "" {
		return nil, refuse(422, "missing_summary", "summary is required").with("field", "summary")
	}
	if len(e.ClaimedMetrics) > maxMetrics {
		return nil, refuse(422, "bad_claimed_metrics", "claimed_metrics has %d entries, at most %d are allowed", len(e.ClaimedMetrics), maxMetrics)
	}
	for k, v := range e.ClaimedMetrics {
		if len(k) > 120 || len(v) > 1000 {
			return nil, refuse(422, "bad_claimed_metrics", "claimed_metrics: %.40q: a name has at most 120 bytes and a value 1000", k).with("field", "claimed_metrics")
		}
	}
	if err := checkArtifact(pub, e); err != nil {
		return nil, err
	}
	if sha != "" && e.BaseRef != "" && e.BaseRef != pub.BaseRef && e.BaseRef != "HEAD" && !(shaForm().MatchString(e.BaseRef) && strings.HasPrefix(sha, e.BaseRef)) {
		return nil, refuse(422, "unknown_base_ref", "base_ref %.60q is not the task's base: make the patch against %s (agon research submit-workspace does)", e.BaseRef, sha).
			with("base_commit_sha", sha).with("base_ref", pub.BaseRef)
	}
	if pub.CompetitionMode == kr.ModeCenterless && strings.TrimSpace(e.ProposedIdea) == "" {
		return nil, refuse(422, "missing_proposed_idea", "this task is centerless: proposed_idea is required, the idea that another miner may implement").with("field", "proposed_idea")
	}
	if strings.TrimSpace(e.Patch) == "" {
		return nil, nil
	}
	return checkPatch(pub, base, e.Patch)
}

// checkPatch refuses by the codes and statuses of the wire's error table.
// Where the base is a foreign repository (base nil) the text alone is looked
// at; the replay applies it.
func checkPatch(pub kr.Task, base *surface.Tree, patch string) (*surface.Result, error) {
	if base == nil {
		return inspect(pub, patch)
	}
	style := surface.StylePath
	if pub.Fnmatch {
		style = surface.StyleFnmatch
	}
	res, err := surface.Check(base, []byte(patch), surface.Rule{Allowed: pub.AllowedPatchPaths, Style: style, MaxBytes: pub.MaxPatchBytes})
	if err != nil {
		return nil, fmt.Errorf("check patch: %w", err)
	}
	return judged(pub, patch, res)
}

// inspect is checkPatch without a base.
func inspect(pub kr.Task, patch string) (*surface.Result, error) {
	res := &surface.Result{Reasons: surface.Inspect([]byte(patch), pub.MaxPatchBytes)}
	if res.OK = len(res.Reasons) == 0; res.OK {
		res.Digest = agon.Sum([]byte(patch))
	}
	return judged(pub, patch, res)
}

// judged turns what is wrong with a patch into a refusal.
func judged(pub kr.Task, patch string, res *surface.Result) (*surface.Result, error) {
	if res.OK {
		return res, nil
	}
	first := res.Reasons[0]
	for _, r := range res.Reasons { // what a miner can do least about comes first
		if r.Code == surface.CodeForbidden {
			first = r
			break
		}
	}
	code := first.Code
	if code == surface.CodeCache {
		code = surface.CodeDisallowed
	}
	r := refuse(422, code, "%s", first)
	var paths []string
	for _, x := range res.Reasons {
		if x.Path != "" && !slices.Contains(paths, x.Path) {
			paths = append(paths, x.Path)
		}
	}
	r.with("reasons", res.Reasons)
	switch code {
	case surface.CodeTooLarge:
		r.Status = 413
		r.with("max_patch_bytes", pub.MaxPatchBytes).with("got", len(patch))
	case surface.CodeDisallowed:
		r.with("paths", paths).with("allowed", pub.AllowedPatchPaths)
	case surface.CodeForbidden:
		r.with("paths", paths)
	}
	return nil, r
}

func checkArtifact(pub kr.Task, e *Entry) error {
	blank := strings.TrimSpace(e.Patch) == ""
	need := func(format string, args ...any) error {
		return refuse(422, "artifact_integrity_required", format, args...).with("required", []string{"artifact_uri", "artifact_sha256", "artifact_size_bytes"})
	}
	switch {
	case pub.Artifact == "" && blank:
		if e.ArtifactURI != "" {
			return refuse(422, "empty_submission", "the patch is empty, and this task takes no artifact instead")
		}
		return refuse(422, "empty_submission", "there is no patch and no artifact")
	case pub.Artifact == "":
		return nil // the words of an artifact are kept and never fetched
	case e.ArtifactURI == "" && pub.Artifact == "required":
		return need("this task scores an artifact: give its https address, sha256 and size")
	case e.ArtifactURI == "" && blank:
		return refuse(422, "empty_submission", "there is no patch and no artifact")
	case e.ArtifactURI == "":
		return nil
	case !strings.HasPrefix(e.ArtifactURI, "https://"):
		return need("artifact_uri: want an https address")
	case !sha256Form().MatchString(strings.ToLower(e.ArtifactSHA256)):
		return need("artifact_sha256: want 64 hex digits")
	case e.ArtifactBytes == nil || *e.ArtifactBytes < 1:
		return need("artifact_size_bytes: want the exact size")
	case *e.ArtifactBytes > pub.ArtifactMaxBytes:
		return refuse(413, "artifact_too_large", "the artifact has %d bytes, at most %d are allowed", *e.ArtifactBytes, pub.ArtifactMaxBytes).with("max_artifact_bytes", pub.ArtifactMaxBytes)
	}
	return nil
}

// errTwin says that another miner made the same change first.
var errTwin = errors.New("the change was submitted before")

// Submit enters a submission. It is durable, with its claim ended and its
// replays queued, when Submit returns.
func (c *Coordinator) Submit(ctx context.Context, hotkey string, e *Entry) (*Submission, error) {
	if len(e.ClaimID) > maxID || e.ClaimID == "" {
		return nil, refuse(422, "missing_claim_id", "claim_id is required").with("field", "claim_id")
	}
	var cl Claim
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		if cl, err = c.ownClaim(tx, hotkey, e.ClaimID); err != nil {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t, err := c.taskOf(cl.TaskID)
	if err != nil {
		return nil, err
	}
	if err := c.usable(cl); err != nil {
		return nil, err
	}
	m, err := c.member(ctx, t, hotkey)
	if err != nil {
		return nil, err
	}
	e.ArtifactSHA256 = strings.ToLower(e.ArtifactSHA256)
	res, err := CheckEntry(t.pub, t.base, t.sha, e)
	if err != nil {
		return nil, err
	}
	s, files, err := c.compose(t, hotkey, m, e, res)
	if err != nil {
		return nil, err
	}
	if t.pub.CompetitionMode == kr.ModePeer || t.pub.CompetitionMode == kr.ModeSelfValidation {
		err = c.enterAlone(ctx, t, s, files)
	} else {
		err = c.enterEngine(ctx, t, hotkey, s, files)
	}
	if errors.Is(err, errTwin) {
		err = c.enterTwin(ctx, t, s, files)
	}
	if err != nil {
		return nil, err
	}
	platform.NonceKept(ctx)
	return &s.Submission, nil
}

// compose makes the row of a submission and its files.
func (c *Coordinator) compose(t *task, hotkey string, m Member, e *Entry, res *surface.Result) (*storedSubmission, []blob.File, error) {
	s := &storedSubmission{Coldkey: m.Coldkey, LogText: e.ExecutionLog, Submission: Submission{
		TaskID: t.id, ClaimID: e.ClaimID, Miner: hotkey, Status: kr.StatusPending, BaseRef: e.BaseRef, BaseSHA: t.sha, Summary: e.Summary,
		ClaimedMetrics: e.ClaimedMetrics, ProposedIdea: opt(e.ProposedIdea), Implemented: opt(e.Implemented), ArtifactURI: opt(e.ArtifactURI),
		ArtifactSHA256: opt(e.ArtifactSHA256), ArtifactBytes: e.ArtifactBytes, PatchBytes: len(e.Patch), CreatedAt: Time{c.now()}, UpdatedAt: Time{c.now()},
	}}
	if s.BaseRef == "" {
		s.BaseRef = t.pub.BaseRef
	}
	if s.ClaimedMetrics == nil {
		s.ClaimedMetrics = map[string]json.RawMessage{}
	}
	change := ""
	if res != nil {
		change = string(res.Digest)
	}
	if e.ArtifactURI != "" && t.pub.Artifact != "" {
		change = string(agon.Sum([]byte(change + "\n" + e.ArtifactSHA256)))
	}
	s.PatchDigest = change
	claim := kr.Claim{
		ClaimID: e.ClaimID, BaseRef: cmp.Or(t.sha, s.BaseRef), Summary: e.Summary, ClaimedMetrics: numbers(e.ClaimedMetrics), ProposedIdea: e.ProposedIdea, Implemented: e.Implemented,
	} // the log stays with the coordinator: no replay needs it
	if t.pub.Artifact != "" && e.ArtifactURI != "" {
		claim.ArtifactURI, claim.ArtifactSHA256, claim.ArtifactBytes = e.ArtifactURI, e.ArtifactSHA256, *e.ArtifactBytes
	}
	body, err := encode(claim)
	if err != nil {
		return nil, nil, err
	}
	extras := map[string]any{}
	for k, v := range map[string]string{
		"evm_miner_address": e.EVMMiner, "reward_address": e.RewardAddress, "competition_id": e.CompetitionID,
		"artifact_hash": e.ArtifactHash, "signature": e.Signature, "reward_signature": e.RewardSignature,
	} {
		if len(v) > 4000 {
			return nil, nil, refuse(413, "field_too_large", "%s has %d bytes, at most 4000 are allowed", k, len(v)).with("field", k)
		}
		if v != "" {
			extras[k] = v
		}
	}
	for k, v := range map[string]json.RawMessage{"nonce": e.Nonce, "subnet_id": e.SubnetID} {
		if len(v) > 1000 {
			return nil, nil, refuse(413, "field_too_large", "%s is larger than 1000 bytes", k).with("field", k)
		}
		if len(v) > 0 && string(v) != "null" {
			extras[k] = v
		}
	}
	if len(extras) > 0 {
		if s.Extras, err = encode(extras); err != nil {
			return nil, nil, err
		}
	}
	return s, []blob.File{{Path: kr.ClaimFile, Content: body}, {Path: kr.PatchFile, Content: []byte(e.Patch)}}, nil
}

// numbers keeps the finite numbers of claimed metrics.
func numbers(in map[string]json.RawMessage) map[string]float64 {
	out := map[string]float64{}
	for k, raw := range in {
		var x float64
		if json.Unmarshal(raw, &x) == nil && !math.IsNaN(x) && !math.IsInf(x, 0) && string(raw) != "null" {
			out[k] = x
		}
	}
	return out
}

// enterEngine enters a submission that validators replay.
func (c *Coordinator) enterEngine(ctx context.Context, t *task, hotkey string, s *storedSubmission, files []blob.File) error {
	var a agon.Arena
	err := c.cfg.Store.Read(ctx, func(tx *store.Tx) (err error) {
		a, err = c.live(tx, t)
		return err
	})
	if err != nil {
		return err
	}
	r := client.SubmitRequest{Name: nameOf(s.Summary), Licence: a.Licence}
	for _, f := range files {
		r.Files = append(r.Files, client.File{Path: f.Path, Content: f.Content})
	}
	_, err = c.cfg.Platform.Enter(ctx, platform.Caller{Hotkey: hotkey}, t.arena, r, func(tx *store.Tx, e store.Entry) error {
		s.ID, s.Files = e.ID, string(e.Digest)
		return c.admit(ctx, tx, t, s)
	})
	return err
}

// nameOf makes the engine's name of a summary: its first words, on one line.
func nameOf(summary string) string {
	var b strings.Builder
	for _, r := range summary {
		if r < 0x20 || r == 0x7f || r > 0x7e {
			r = ' '
		}
		if b.Len() >= 60 {
			break
		}
		b.WriteRune(r)
	}
	if s := strings.Join(strings.Fields(b.String()), " "); s != "" {
		return s
	}
	return "unnamed"
}

// enterAlone enters a submission that peers evaluate: the engine does not play it.
func (c *Coordinator) enterAlone(ctx context.Context, t *task, s *storedSubmission, files []blob.File) error {
	d, err := blob.PutFiles(ctx, c.cfg.Blobs, files, blob.TreeLimits{})
	if err != nil {
		return fmt.Errorf("store submission: %w", err)
	}
	s.ID, s.Files = newID(), string(d)
	return c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := c.live(tx, t); err != nil {
			return err
		}
		return c.admit(ctx, tx, t, s)
	})
}

// enterTwin stores what another miner submitted before: seen, and worth nothing.
func (c *Coordinator) enterTwin(ctx context.Context, t *task, s *storedSubmission, files []blob.File) error {
	d, err := blob.PutFiles(ctx, c.cfg.Blobs, files, blob.TreeLimits{})
	if err != nil {
		return fmt.Errorf("store submission: %w", err)
	}
	s.ID, s.Files = newID(), string(d)
	return c.cfg.Store.Write(ctx, func(tx *store.Tx) error {
		if _, err := c.live(tx, t); err != nil {
			return err
		}
		first, err := tx.Doc(tableChanges, t.id+"/"+s.PatchDigest)
		if err != nil {
			return err
		}
		s.Status, s.DuplicateOf = kr.StatusRejected, opt(first.Ref)
		s.Reason = "duplicate_submission: another miner submitted the same change before"
		return c.insert(ctx, tx, t, s)
	})
}

// admit stores a new submission in the transaction that makes it one.
func (c *Coordinator) admit(ctx context.Context, tx *store.Tx, t *task, s *storedSubmission) error {
	change := store.Doc{ID: t.id + "/" + s.PatchDigest, Task: t.id, Owner: s.Miner, Ref: s.ID, Status: "first", At: s.CreatedAt.Time, Body: []byte("{}")}
	first, err := tx.Doc(tableChanges, change.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if err := tx.InsertDoc(tableChanges, change); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		old, err := tx.Doc(tableSubmissions, first.Ref)
		if err != nil {
			return err
		}
		switch {
		case old.Status == kr.StatusError: // nothing was measured: it may be tried again, by anybody
			if err := tx.SetDoc(tableChanges, change, "first"); err != nil {
				return err
			}
		case old.Owner == s.Miner:
			return refuse(409, "duplicate_submission", "you submitted the same change before, as %s", first.Ref).with("submission_id", first.Ref)
		default:
			return errTwin
		}
	}
	if s.Implemented != nil {
		if err := c.implements(tx, t, s); err != nil {
			return err
		}
	}
	return c.insert(ctx, tx, t, s)
}

// insert writes the row and ends the claim, with the nonce of the request that was deferred.
func (c *Coordinator) insert(ctx context.Context, tx *store.Tx, t *task, s *storedSubmission) error {
	if err := platform.UseNonce(ctx, tx); err != nil {
		return err
	}
	cl, err := c.ownClaim(tx, s.Miner, s.ClaimID)
	if err != nil {
		return err
	}
	if err := c.usable(cl); err != nil {
		return err
	}
	cl.SubmissionID = &s.ID
	if err := endClaim(tx, &cl, ClaimSubmitted); err != nil {
		return err
	}
	body, err := encode(s)
	if err != nil {
		return err
	}
	return tx.InsertDoc(tableSubmissions, store.Doc{ID: s.ID, Task: t.id, Owner: s.Miner, Ref: s.ClaimID, Status: s.Status, At: s.CreatedAt.Time, Body: body})
}

// implements checks that a submission implements an accepted idea of another
// miner that was there before its claim, and books the reward as pending.
func (c *Coordinator) implements(tx *store.Tx, t *task, s *storedSubmission) error {
	no := func(why string) error {
		return refuse(422, "unknown_implemented_submission", "implemented_submission_id: %s", why).with("implemented_submission_id", *s.Implemented)
	}
	d, err := tx.Doc(tableSubmissions, *s.Implemented)
	if errors.Is(err, store.ErrNotFound) || (err == nil && d.Task != t.id) {
		return no("no such submission of this task")
	}
	if err != nil {
		return err
	}
	idea, err := decode[storedSubmission](d)
	if err != nil {
		return err
	}
	cl, err := c.ownClaim(tx, s.Miner, s.ClaimID)
	if err != nil {
		return err
	}
	switch {
	case d.Status != kr.StatusAccepted:
		return no("it is not accepted")
	case idea.Miner == s.Miner || idea.Coldkey == s.Coldkey:
		return no("it is your own")
	case idea.ProposedIdea == nil:
		return no("it proposes no idea")
	case !idea.CreatedAt.Before(cl.CreatedAt.Time):
		return no("it is younger than your claim")
	}
	share := float64(t.pub.ProposerPercent) / 100
	x := Idea{
		ID: s.ID, TaskID: t.id, Submission: s.ID, Proposal: d.ID, Proposer: idea.Miner, Implementer: s.Miner,
		ProposerShare: share, ImplementShare: 1 - share, Status: "pending", CreatedAt: s.CreatedAt,
	}
	body, err := encode(x)
	if err != nil {
		return err
	}
	return tx.InsertDoc(tableIdeas, store.Doc{ID: x.ID, Task: t.id, Owner: idea.Miner, Ref: d.ID, Status: x.Status, At: s.CreatedAt.Time, Body: body})
}

// observedOf are the numbers that a replay saw, by the names of the benchmark.
func observedOf(m map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for k, v := range maps.All(m) {
		if name, ok := strings.CutPrefix(k, kr.MetricPrefix); ok && name != "" {
			out[name] = v
		}
	}
	return out
}
