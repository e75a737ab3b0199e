// Package client is the signed HTTP client of agon's own API, and the shapes
// that travel over it. The server (ui/api) uses the same shapes.
package client

import (
	"time"

	"github.com/agon-arena/agon"
)

// Server is GET /v1/server.
type Server struct {
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Audience string    `json:"audience" doc:"the last line of what agon-v1 signatures cover"`
	Time     time.Time `json:"time"`
	Operator string    `json:"operator" doc:"hotkey of the operator, SS58"`
	// Registration says who signs registrations on the embedded ledger.
	Registration string     `json:"registration,omitempty" doc:"who registers hotkeys on the embedded ledger: open (a hotkey itself), operator, coldkey (the coldkey signs), burn (the coldkey signs and pays)"`
	Protocols    *Protocols `json:"protocols,omitempty" doc:"versions of the protocol of validators that it speaks; absent: 1"`
	Log          string     `json:"log,omitempty" doc:"public key of the transparency log, as golang.org/x/mod/sumdb/note reads it"`
}

// Arena is an arena as the API shows it.
type Arena struct {
	agon.Arena
	// URL is where the arena's foreign dialect listens; null without one.
	URL      *string    `json:"url"`
	Champion *agon.Seat `json:"champion"` // the first of Seats
	Seats    []Place    `json:"seats"`
	Queued   int        `json:"queued"`
	Playing  int        `json:"playing"`
	Judging  int        `json:"judging,omitempty" doc:"results that others judge again before a decision"`
	Fairness string     `json:"fairness,omitempty" doc:"how luck and copies fare under the arena's rule"`
	TierTest string     `json:"tier_test,omitempty" doc:"by which test submissions of one tier cannot be told apart"`
	Burned   float64    `json:"burned" doc:"the share of the reward that nobody earns"`
	Pays     string     `json:"pays,omitempty" doc:"who earns what, and why the rest is burned, in a sentence"`
	Seeds    *Seeds     `json:"seeds,omitempty" doc:"what is known of the seeds of its runs"`
	// Hidden are the tasks that are hidden, or were.
	Hidden []HiddenTask `json:"hidden,omitempty" doc:"commitments of tasks that are hidden, or were"`
	// Judge is how the judges stand, where they err.
	Judge *JudgeStanding `json:"judge,omitempty" doc:"whether it seats anybody by what its judges say, and how they did on labelled cases"`
}

// JudgeStanding says whether an arena whose judges err seats anybody by what they say.
type JudgeStanding struct {
	Seats    bool    `json:"seats" doc:"whether it decides seats"`
	Sentence string  `json:"sentence" doc:"why, or why not"`
	Judges   []Judge `json:"judges" doc:"those on record, the newest calibration first"`
}

// Judge is how a judge did on labelled cases. Rates are from 0 to 1.
type Judge struct {
	Model   string    `json:"model" doc:"models between commas: a panel, or each stands in for the one before"`
	Scorer  string    `json:"scorer" doc:"as it stands at the end of a score's scorer"`
	At      time.Time `json:"at" doc:"when it was measured"`
	Set     string    `json:"set" doc:"shipped: the cases that come with agon; else the digest of the operator's own"`
	Tries   int       `json:"tries" doc:"how often it was measured: the last counts"`
	Passed  bool      `json:"passed" doc:"whether it passes the arena's gate"`
	Why     string    `json:"why"`
	Cases   int       `json:"cases"`
	Failed  int       `json:"failed" doc:"cases without a verdict"`
	Kappa   float64   `json:"kappa" doc:"Cohen's: agreement beyond chance"`
	CI      []float64 `json:"ci" doc:"its 95 % interval"`
	Accepts float64   `json:"false_accept_rate"`
	Rejects float64   `json:"false_reject_rate"`
	Classes []Class   `json:"classes" doc:"false accepts by what the cases try, by name"`
}

// Class is how often a judge accepts falsely where a case tries one thing.
type Class struct {
	Class       string  `json:"class"`
	Cases       int     `json:"cases"`
	FalseAccept float64 `json:"false_accept" doc:"share of them, 0 to 1"`
}

// HiddenTask is what shows outside of a task that is hidden, or was.
type HiddenTask struct {
	Task        string      `json:"task" doc:"says nothing"`
	Commitment  agon.Digest `json:"commitment" doc:"HMAC-SHA-256 of the digest's text with the salt (agon calc task.commit)"`
	CommittedAt time.Time   `json:"committed_at"`
	RetiredAt   *time.Time  `json:"retired_at,omitempty"`
	Salt        string      `json:"salt,omitempty" doc:"hex, when the task has retired"`
	Digest      agon.Digest `json:"digest,omitempty" doc:"when the task has retired"`
	Name        string      `json:"name,omitempty" doc:"what its operator called it, when it has retired"`
}

// ArenaTask is one task of an arena, with how much was seen of it.
type ArenaTask struct {
	Task      string      `json:"task"`
	Digest    agon.Digest `json:"digest,omitempty"`
	Hidden    bool        `json:"hidden"`
	Retired   bool        `json:"retired,omitempty" doc:"it is played no more"`
	Exposure  Exposure    `json:"exposure"`
	Committed *HiddenTask `json:"committed,omitempty"`
}

// Exposure is how much was given out of a task.
type Exposure struct {
	Plays  int64      `json:"plays" doc:"leases of runs with it"`
	Miners int64      `json:"miners" doc:"whose submissions were played on it"`
	Days   int64      `json:"days" doc:"since it was first given out, begun days count"`
	First  *time.Time `json:"first,omitempty" doc:"when it was first given out"`
}

// Seeds is what is known of the seeds of an arena's runs.
type Seeds struct {
	BeaconRule string      `json:"beacon_rule" doc:"block: the hash of the first block after a submission is accepted; none: the ledger has no hashes"`
	Period     *SeedPeriod `json:"period" doc:"the present set period"`
	Next       agon.Digest `json:"next_commitment,omitempty" doc:"of the secret of the period to come"`
	NextTasks  []string    `json:"next_tasks,omitempty" doc:"the set of the period to come, which is committed to already"`
}

// SeedPeriod is a set period: the time for which one secret makes the seeds.
type SeedPeriod struct {
	Arena  string    `json:"arena"`
	Period int64     `json:"period"` // from 0
	Opens  time.Time `json:"opens"`
	Closes time.Time `json:"closes"`
	// The blocks that begin and end it, where blocks count it: its times are estimates then.
	OpensBlock  uint64      `json:"opens_block,omitempty"`
	ClosesBlock uint64      `json:"closes_block,omitempty"`
	Commitment  agon.Digest `json:"commitment" doc:"SHA-256 of the secret's bytes"`
	// Tasks is its set, by the ids of its tasks, where the arena has a supply. It is
	// public from PublishedAt on, as far as it is used up.
	Tasks       []string   `json:"tasks,omitempty"`
	PublishedAt *time.Time `json:"published_at,omitempty"`
	// Beacon is the hash of BeaconBlock, the first block after its set began to be
	// played: the seeds by which who sits is played on the set come of it.
	BeaconBlock uint64     `json:"beacon_block,omitempty"`
	Beacon      string     `json:"beacon,omitempty"`
	Secret      string     `json:"secret,omitempty" doc:"hex, when the period has ended"`
	RevealedAt  *time.Time `json:"revealed_at,omitempty"`
	CommittedAt *time.Time `json:"committed_at,omitempty"`
	// Drand is the round by which its set was drawn besides the secret.
	Drand      *Drand              `json:"drand,omitempty"`
	Difficulty *agon.SetDifficulty `json:"difficulty,omitempty" doc:"of its set, and what it follows from"`
	// Unverifiable: the secret was not shown in time.
	Unverifiable bool `json:"unverifiable,omitempty" doc:"the secret was not shown within a day after the end: nobody can compute the seeds of this period"`
}

// Set is the log's word of a period's set: what is committed to before it begins.
type Set struct {
	Arena  string    `json:"arena"`
	Period int64     `json:"period"`
	Tasks  []SetTask `json:"tasks"`
	Drand  *Drand    `json:"drand,omitempty"` // by which it was drawn besides the period's secret
	// Difficulty is its level and what that follows from, where the arena names bounds of it.
	Difficulty *agon.SetDifficulty `json:"difficulty,omitempty"`
}

// Drand is a round of drand's quicknet.
type Drand struct {
	Round      uint64 `json:"round" doc:"the first at or after half a minute after the commitment"`
	Signature  string `json:"signature" doc:"hex; any client of drand checks it"`
	Randomness string `json:"randomness" doc:"SHA-256 of the signature, hex"`
}

// SetTask is one task of a set.
type SetTask struct {
	Task       string      `json:"task"`
	Commitment agon.Digest `json:"commitment"`
}

// Place is an occupied seat of an arena.
type Place struct {
	Place int     `json:"place"` // from 1
	Share float64 `json:"share"` // of the reward, 0 to 1
	agon.Seat
	Parent *Parent `json:"parent,omitempty" doc:"public work of another that it nearly is, and shares its reward with"`
}

// Parent is the public work that a near-copy was made of.
type Parent struct {
	Submission string  `json:"submission"`
	Miner      string  `json:"miner"`
	Name       string  `json:"name"`
	Share      float64 `json:"share"` // of the reward, 0 to 1
}

// File is one file of a submission on the wire.
type File struct {
	Path    string `json:"path" maxLength:"255"`
	Content []byte `json:"content" doc:"base64"`
}

// SubmitRequest is POST /v1/arenas/{arena}/submissions. The signer is the miner.
type SubmitRequest struct {
	Name    string `json:"name" maxLength:"80"`
	Licence string `json:"licence" doc:"SPDX id the miner agrees to; must equal the arena's" maxLength:"40"`
	Files   []File `json:"files" maxItems:"64"`
}

// Submission is a submission with what its owner and the public may see.
type Submission struct {
	agon.Submission
	Score      *float64       `json:"score"`
	Solved     *int           `json:"solved"`
	Total      *int           `json:"total"`
	CostMicros agon.Micros    `json:"cost_micros"`
	Findings   []agon.Finding `json:"findings,omitempty"`
	Decision   *agon.Decision `json:"decision,omitempty"`
	// Unverifiable: the seeds of its runs can never be computed again.
	Unverifiable bool `json:"unverifiable,omitempty" doc:"the secret of its set period was not shown in time: nobody can compute the seeds of its runs"`
	// Qualified says whether every task is solved; nil until it is decided.
	Qualified *bool `json:"qualified,omitempty" doc:"whether every task is solved; absent until it is decided"`
	// ExcludedReason says why a submission is not played.
	ExcludedReason string `json:"excluded_reason,omitempty" doc:"why it is not played: a copy, refused, incomplete"`
	// Contest is how a challenge by pairs stands that is not decided yet.
	Contest map[string]float64 `json:"contest,omitempty" doc:"of a challenge by pairs under way: what it needs (need) and has (evidence), attempt, alpha, pairs, max_pairs, cost_usd"`
	Credit  *agon.Credit       `json:"credit,omitempty" doc:"what a fault of ours, or a granted appeal, gives back"`
	Paid    *agon.Paid         `json:"paid,omitempty" doc:"what it took from its coldkey's purse: the fee, and what its pairs cost or may cost"`
	// Appeal is the miner's objection to how it was played.
	Appeal *agon.Appeal `json:"appeal,omitempty" doc:"the miner's objection to how it was played, and its answer"`
	// Created is false when the same miner sent the same bytes before.
	Created bool `json:"created,omitempty"`
}

// Run is a run with its attempts.
type Run struct {
	agon.Run
	Name string         `json:"name,omitempty" doc:"name of its submission"`
	List []agon.Attempt `json:"list,omitempty" doc:"attempts, oldest first"`
	// Gone is what was removed since the operator keeps it for a time only.
	Gone []string `json:"gone,omitempty" doc:"of one run: what was removed since its time is over: steps (events and receipts), evidence (files), output (those of them that boxes printed)"`
}

// ClaimRequest is POST /v1/leases: take one run, waiting up to WaitMS (≤ 20,000).
type ClaimRequest struct {
	Arenas []string `json:"arenas,omitempty" doc:"empty: any"`
	Kinds  []string `json:"kinds" doc:"kinds this validator can play"`
	Driver string   `json:"driver" doc:"its box driver"`
	WaitMS int      `json:"wait_ms"`
	// Version of the validator's agon, for people who look after an arena.
	Version string `json:"version,omitempty" doc:"version of its agon" maxLength:"100"`
	// Protocols are the versions of the protocol that it speaks; absent: 1.
	Protocols *Protocols `json:"protocols,omitempty" doc:"versions of this protocol that it speaks; absent: version 1"`
	// MissingImages are images, by their digests, that it does not have (yet): runs of
	// tasks that name one are for others.
	MissingImages []string `json:"missing_images,omitempty" doc:"images and data sets (dataset:…) by digest that it does not have: tasks that name one are not offered" maxItems:"500"`
	// GPUs are those of its machine that boxes can be given: tasks that need others are for others.
	GPUs []agon.GPU `json:"gpus,omitempty" doc:"GPUs of its machine that boxes can be given: tasks that need others are not offered" maxItems:"64"`
}

// MaxMissingImages bounds ClaimRequest.MissingImages.
const MaxMissingImages = 500

// NeededImages is POST /v1/images: what the tasks of a validator's arenas stand on.
type NeededImages struct {
	Images []NeededImage `json:"images"`
}

// NeededImage is one image, by its digest, and how many tasks name it.
type NeededImage struct {
	Image string `json:"image"`
	Tasks int    `json:"tasks"`
}

// Lease is a claimed run. Token proves the lease; it is in no log.
type Lease struct {
	ID         string          `json:"id"`
	Token      string          `json:"token"`
	Run        agon.RunSpec    `json:"run"`
	Attempt    int             `json:"attempt"`
	Protocol   int             `json:"protocol,omitempty" doc:"version of the protocol that was agreed; absent: 1"`
	Arena      agon.Arena      `json:"arena"`
	Submission agon.Submission `json:"submission"`
	Until      time.Time       `json:"until"`
	// Heartbeat is how often to send one.
	HeartbeatMS int    `json:"heartbeat_ms"`
	Trace       string `json:"trace,omitempty" doc:"the server's span of the claim, as W3C traceparent; where the server sends spans"`
}

// JudgeLease is POST /v1/judge-leases: a result of another validator to judge
// again. Evidence names the tree that its play left; Outcome is what the kind
// said of it. What the first judge made of it is not in it.
type JudgeLease struct {
	ID          string          `json:"id"`
	Token       string          `json:"token"`
	Run         agon.RunSpec    `json:"run"`
	Attempt     int             `json:"attempt"`
	Protocol    int             `json:"protocol,omitempty" doc:"version of the protocol that was agreed; absent: 1"`
	Arena       agon.Arena      `json:"arena"`
	Submission  agon.Submission `json:"submission"`
	Outcome     string          `json:"outcome"`
	Evidence    agon.Digest     `json:"evidence"`
	Until       time.Time       `json:"until"`
	HeartbeatMS int             `json:"heartbeat_ms"`
}

// JudgeHeartbeat is POST /v1/judge-leases/{id}/heartbeat.
type JudgeHeartbeat struct {
	Token string `json:"token"`
}

// JudgeResult is POST /v1/judge-leases/{id}/result. Sending it again is answered alike.
type JudgeResult struct {
	Token  string       `json:"token"`
	Fault  agon.Fault   `json:"fault,omitempty" doc:"a fault of ours: the judging is given back"`
	Reason string       `json:"reason,omitempty"`
	Scores []agon.Score `json:"scores,omitempty"`
	Driver agon.Driver  `json:"driver"`
}

// JudgeReply says where the judging stands now.
type JudgeReply struct {
	State agon.JudgingState `json:"state"`
}

// Standings is GET /v1/validators/standing. Who stands below Bar gets no leases.
type Standings struct {
	Bar        float64             `json:"bar"`
	Validators []ValidatorStanding `json:"validators"`
}

// ValidatorStanding is how far one validator's word holds.
type ValidatorStanding struct {
	Hotkey       string     `json:"hotkey"`
	Runs         int64      `json:"runs" doc:"results of it that count"`
	JudgedAgain  int64      `json:"judged_again" doc:"results of it that others judged again, of the last 90 days"`
	Judged       int64      `json:"judged" doc:"results of others that it judged"`
	Contradicted int64      `json:"contradicted" doc:"cases that a third settled against it"`
	Canaries     int        `json:"canaries" doc:"replays and duels of known outcome"`
	Missed       int        `json:"missed" doc:"those that it got wrong"`
	Standing     float64    `json:"standing" doc:"0 to 1: agon calc score.standing"`
	GPUs         []agon.GPU `json:"gpus,omitempty" doc:"what it last said of its machine's GPUs"`
	SharesGPU    []string   `json:"shares_gpu,omitempty" doc:"other validators that lately named one of the same cards"`
	Named        bool       `json:"named" doc:"there is a case against it"`
	Excluded     bool       `json:"excluded" doc:"it gets no leases, and its results do not count"`
	Pairs        []Agreed   `json:"pairs"`
	Cases        []Case     `json:"cases"`
}

// Agreed is how often another judged a validator's results, and of one mind with it.
type Agreed struct {
	By     string `json:"by"`
	Judged int64  `json:"judged"`
	Agrees int64  `json:"agrees"`
}

// Heartbeat is POST /v1/leases/{id}/heartbeat: extends the lease, moves the
// run's state, appends events. All parts are optional. Events carry their own
// Seq, so a repeated batch changes nothing.
type Heartbeat struct {
	Token  string        `json:"token"`
	State  agon.RunState `json:"state,omitempty"` // playing or judging
	Events []agon.Event  `json:"events,omitempty"`
}

// HeartbeatReply tells the holder how it stands.
type HeartbeatReply struct {
	Until  time.Time `json:"until"`
	Cancel bool      `json:"cancel" doc:"stop: the run was cancelled or the lease is lost"`
}

// Result is POST /v1/leases/{id}/result. Sending it again is answered alike.
type Result struct {
	Token    string       `json:"token"`
	Fault    agon.Fault   `json:"fault"`
	Reason   string       `json:"reason,omitempty"`
	Outcome  string       `json:"outcome"`
	Scores   []agon.Score `json:"scores"`
	Driver   agon.Driver  `json:"driver"`
	Cost     agon.Micros  `json:"cost_micros"`
	BoxMS    int64        `json:"box_ms"`
	Evidence agon.Digest  `json:"evidence,omitempty" doc:"tree put before by PUT /v1/blobs"`
	// Uploads are blobs of this lease that belong to the run and prove nothing: what a
	// validator of another protocol left. They are read by who may read evidence.
	Uploads  []agon.Digest  `json:"uploads,omitempty" doc:"blobs put under this lease that stand beside the evidence"`
	Receipts []agon.Receipt `json:"receipts,omitempty"`
	// Statement closes the receipts: the gateway's signature over their number, end and sum.
	Statement *agon.Statement `json:"statement,omitempty"`
	Events    []agon.Event    `json:"events,omitempty" doc:"the rest of the log"`
}

// ResultReply says what the result did.
type ResultReply struct {
	State   agon.RunState `json:"state"`
	Counted bool          `json:"counted"`
	Late    bool          `json:"late"`
}

// Retune is a change of an arena while it runs; absent fields stay. Runs that
// were planned keep the policy they were planned with.
type Retune struct {
	MaxLeases             *int         `json:"max_leases,omitempty" doc:"1 to 1000"`
	Attempts              *int         `json:"attempts,omitempty" doc:"retries after a fault of ours, 0 to 5"`
	SubmissionsPerColdkey *int         `json:"submissions_per_coldkey,omitempty" doc:"a day; 0: no cap"`
	BudgetMicros          *agon.Micros `json:"budget_micros,omitempty" doc:"of a run at the gateway"`
}

// RetuneRequest is POST /v1/arenas/{arena}/retune (operator).
type RetuneRequest struct {
	Retune
	Reason string `json:"reason" maxLength:"2000"`
}

// RetunePlan says what a retune would do, of which nothing is done:
// POST /v1/arenas/{arena}/retune-plan (operator). The effects are counted in
// what the arena's newest runs and submissions did under the numbers of today.
type RetunePlan struct {
	Arena   string         `json:"arena"`
	Changes []RetuneChange `json:"changes" doc:"a row for each number that would change"`
}

// RetuneChange is one number that would change, and whom that touches.
type RetuneChange struct {
	Field   string `json:"field"`
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Touched int64  `json:"touched" doc:"how many of those looked at would have gone another way"`
	Of      int64  `json:"of" doc:"how many were looked at"`
	Effect  string `json:"effect" doc:"a sentence"`
}

// GatewayKey is POST /v1/arenas/{arena}/gateway-key (operator): the succession
// that the old key has signed, or a new key where the old one is revoked.
type GatewayKey struct {
	Succession *agon.Succession `json:"succession,omitempty" doc:"of agon gateway rotate"`
	Key        string           `json:"key,omitempty" maxLength:"64" doc:"address of the new key"`
	Revoke     bool             `json:"revoke,omitempty" doc:"the old key is not to be believed any more"`
	Reason     string           `json:"reason" maxLength:"2000"`
}

// WebhookRequest is POST /v1/webhooks (operator).
type WebhookRequest struct {
	URL   string   `json:"url" maxLength:"2048"`
	Types []string `json:"types,omitempty" maxItems:"20" doc:"event types; none or * for all"`
}

// Webhooks is GET /v1/webhooks.
type Webhooks struct {
	Key   string         `json:"key" doc:"ed25519 key that signs, whpk_ and base64"`
	Items []agon.Webhook `json:"items"`
}

// Board is GET /v1/arenas/{id}/board, and one entry of Overview.
type Board struct {
	ID          string          `json:"id"`
	Kind        string          `json:"kind"`
	URL         *string         `json:"url"`
	Champion    *string         `json:"champion"`
	Seats       []Place         `json:"seats" doc:"who sits, by place, and what each earns"`
	Burned      float64         `json:"burned" doc:"the share of the reward that nobody earns"`
	Pays        string          `json:"pays,omitempty" doc:"who earns what, and why the rest is burned, in a sentence"`
	Fairness    string          `json:"fairness,omitempty" doc:"how luck and copies fare under the arena's rule"`
	TierTest    string          `json:"tier_test,omitempty" doc:"by which test submissions of one tier cannot be told apart"`
	Submissions []BoardRow      `json:"submissions"`
	Weights     []agon.Weight   `json:"weights"`
	Decisions   []BoardDecision `json:"decisions"`
	// Appeals are answered by the operator until their deadline, or granted.
	Appeals []agon.Appeal `json:"appeals,omitempty" doc:"objections of miners, newest first: open ones with the deadline until which the operator answers"`
	// Agreement is what validators that ask no platform came to over the same packs.
	Agreement *Agreement `json:"agreement,omitempty" doc:"what validators without a platform agree on, where some play here"`
}

// Agreement is what the validators of a policy-pack arena that ask no platform
// say of its seat. Each found the packs on the ledger and played them itself.
type Agreement struct {
	Netuid     uint16     `json:"netuid" doc:"the subnet on which they do so"`
	Window     int64      `json:"window" doc:"the last that all have aggregated; -1: none yet"`
	Agreed     bool       `json:"agreed" doc:"all name one winner, or none, and their weights on the ledger are the same"`
	Winner     *string    `json:"winner" doc:"hotkey"`
	PackHash   *string    `json:"pack_hash"`
	CostUSD    float64    `json:"cost_usd" doc:"of the winner, per episode, averaged by stake"`
	Scripted   bool       `json:"scripted" doc:"a script was the model, at a made-up price: the winner is named and everything is burned"`
	Tasks      []string   `json:"tasks" doc:"the scenarios that they play"`
	Validators []Agreeing `json:"validators"`
	Note       string     `json:"note,omitempty" doc:"why there is no agreement yet"`
	// Names are those of the packs that the server has entered itself, by hotkey.
	Names map[string]string `json:"names,omitempty" doc:"names of the samples, by hotkey"`
}

// WinnerName is the name of the winner's pack, where the server has entered it
// itself; else "".
func (g Agreement) WinnerName() string {
	if g.Winner == nil {
		return ""
	}
	return g.Names[*g.Winner]
}

// Agreeing is one validator of an agreement.
type Agreeing struct {
	Hotkey   string            `json:"hotkey"`
	Stake    uint64            `json:"stake" doc:"rao"`
	Winner   string            `json:"winner"`
	CostUSD  float64           `json:"cost_usd"`
	Judged   int               `json:"judged" doc:"packs that it has an evaluation of"`
	Filter   string            `json:"filter" doc:"how many payloads each filter took"`
	Outvoted []string          `json:"outvoted" doc:"validators that it saw outvoted"`
	Excluded map[string]string `json:"excluded" doc:"miners whose packs it does not play, and why"`
	Weights  []agon.Weight     `json:"weights"`
	Fault    agon.Fault        `json:"fault,omitempty"`
	Reason   string            `json:"reason,omitempty"`
}

// RunCounts counts runs and the faults of their attempts.
type RunCounts struct {
	Scored  int                `json:"scored"`
	Failed  int                `json:"failed"`
	ByFault map[agon.Fault]int `json:"by_fault"`
}

// Overview is GET /v1/overview and what `agon up --once -o json` prints.
type Overview struct {
	Arenas    []Board   `json:"arenas"`
	Runs      RunCounts `json:"runs"`
	BoxDriver string    `json:"box_driver"`
	// Corpus is what agon up made of the runs when all were decided.
	Corpus *CorpusSummary `json:"corpus,omitempty"`
}

// CorpusSummary sums up a built corpus.
type CorpusSummary struct {
	Rows     int            `json:"rows"`
	Rejected map[string]int `json:"rejected" doc:"tasks of runs that became no row, by reason"`
	Dir      string         `json:"dir"`
}

// Neuron is one row of a metagraph.
type Neuron struct {
	UID        uint16 `json:"uid"`
	Hotkey     string `json:"hotkey"`
	Coldkey    string `json:"coldkey"`
	Validator  bool   `json:"validator"`
	Stake      uint64 `json:"stake"`
	Registered uint64 `json:"registered_at"`
	LastUpdate uint64 `json:"last_update"`
	Incentive  uint16 `json:"incentive"`
}

// Metagraph is GET /v1/ledger/{netuid}.
type Metagraph struct {
	Netuid  uint16        `json:"netuid"`
	Block   uint64        `json:"block"`
	Price   uint64        `json:"registration_price,omitempty" doc:"rao: what a registration costs now"`
	Neurons []Neuron      `json:"neurons"`
	Weights []agon.Weight `json:"weights" doc:"of the validator with the highest stake that has set any"`
}

// RegisterRequest is POST /v1/ledger/{netuid}/register. Who signs it depends on
// Server.Registration: open the hotkey, operator the operator, coldkey and burn
// the coldkey; the operator may always.
type RegisterRequest struct {
	Hotkey    string `json:"hotkey"`
	Coldkey   string `json:"coldkey"`
	Validator bool   `json:"validator,omitempty" doc:"operator only: grant a validator permit"`
}

// FundRequest is POST /v1/ledger/fund, signed by the operator.
type FundRequest struct {
	Coldkey string `json:"coldkey"`
	Rao     uint64 `json:"rao" doc:"10^-9 TAO"`
}

// Balance is what a coldkey has on the embedded ledger.
type Balance struct {
	Coldkey string `json:"coldkey"`
	Rao     uint64 `json:"balance" doc:"rao, 10^-9 TAO"`
}

// SetWeightsRequest is POST /v1/ledger/{netuid}/weights, signed by a validator.
type SetWeightsRequest struct {
	UIDs       []uint16 `json:"uids"`
	Values     []uint16 `json:"values"`
	VersionKey uint64   `json:"version_key"`
}

// Target is GET /v1/arenas/{id}/weights: the weights the incentive rule wants.
type Target struct {
	Netuid uint16   `json:"netuid"`
	UIDs   []uint16 `json:"uids"`
	Values []uint16 `json:"values"`
}

// Page is a list with an opaque cursor.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Problem is application/problem+json.
type Problem struct {
	Type      string         `json:"type"`
	Title     string         `json:"title"`
	Status    int            `json:"status"`
	Detail    string         `json:"detail"`
	Code      string         `json:"code"`
	Field     string         `json:"field,omitempty"`
	Limit     string         `json:"limit,omitempty"`
	Mend      string         `json:"mend,omitempty"`
	Fault     agon.Fault     `json:"fault,omitempty"`
	RequestID string         `json:"request_id"`
	Findings  []agon.Finding `json:"findings,omitempty"`
}
