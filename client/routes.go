package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/agon-arena/agon"
)

// callTimeout bounds one try of an ordinary call; claims and streams wait longer.
const callTimeout = 60 * time.Second

func get(p string, q url.Values) call {
	return call{method: http.MethodGet, path: p, query: q, idempotent: true, timeout: callTimeout}
}

func post(p string, idempotent bool) call {
	return call{method: http.MethodPost, path: p, idempotent: idempotent, timeout: callTimeout}
}

// Server asks who the server is. It is never signed: signing needs its answer.
func (c *Client) Server(ctx context.Context) (*Server, error) {
	ca := get(path("server"), nil)
	ca.unsigned = true
	var out Server
	_, err := c.json(ctx, ca, nil, &out)
	return ptr(&out, err)
}

// Overview returns every arena's board and the run counts.
func (c *Client) Overview(ctx context.Context) (*Overview, error) {
	var out Overview
	_, err := c.json(ctx, get(path("overview"), nil), nil, &out)
	return ptr(&out, err)
}

// Arenas lists the arenas.
func (c *Client) Arenas(ctx context.Context) ([]Arena, error) {
	var out Page[Arena]
	_, err := c.json(ctx, get(path("arenas"), nil), nil, &out)
	return out.Items, err
}

// Arena returns one arena.
func (c *Client) Arena(ctx context.Context, id string) (*Arena, error) {
	var out Arena
	_, err := c.json(ctx, get(path("arenas", id), nil), nil, &out)
	return ptr(&out, err)
}

// Board returns an arena's leaderboard.
func (c *Client) Board(ctx context.Context, arena string) (*Board, error) {
	var out Board
	_, err := c.json(ctx, get(path("arenas", arena, "board"), nil), nil, &out)
	return ptr(&out, err)
}

// Target returns the weights that the arena's rule wants now.
func (c *Client) Target(ctx context.Context, arena string) (*Target, error) {
	var out Target
	_, err := c.json(ctx, get(path("arenas", arena, "weights"), nil), nil, &out)
	return ptr(&out, err)
}

// SetArenaState opens, pauses, holds or closes an arena, for a reason that may be
// empty; for operators.
func (c *Client) SetArenaState(ctx context.Context, arena string, s agon.ArenaState, reason string) error {
	in := struct {
		State  agon.ArenaState `json:"state"`
		Reason string          `json:"reason,omitempty"`
	}{s, reason}
	_, err := c.json(ctx, post(path("arenas", arena, "state"), true), in, nil)
	return err
}

// Retune changes an arena's numbers; for operators.
func (c *Client) Retune(ctx context.Context, arena string, r RetuneRequest) (*Arena, error) {
	var out Arena
	_, err := c.json(ctx, post(path("arenas", arena, "retune"), true), r, &out)
	return &out, err
}

// RetunePlan tells what a retune would do and changes nothing; for operators.
func (c *Client) RetunePlan(ctx context.Context, arena string, r Retune) (*RetunePlan, error) {
	var out RetunePlan
	_, err := c.json(ctx, post(path("arenas", arena, "retune-plan"), false), r, &out)
	return &out, err
}

// GatewayKey puts another key of an arena's gateway in force; for operators.
func (c *Client) GatewayKey(ctx context.Context, arena string, r GatewayKey) (*Arena, error) {
	var out Arena
	_, err := c.json(ctx, post(path("arenas", arena, "gateway-key"), true), r, &out)
	return &out, err
}

// reasoned is the body of the operator's acts on one thing.
type reasoned struct {
	Reason string `json:"reason"`
}

// Ban takes a submission out of its arena; for operators.
func (c *Client) Ban(ctx context.Context, submission, reason string) (*Submission, error) {
	var out Submission
	_, err := c.json(ctx, post(path("submissions", submission, "ban"), false), reasoned{reason}, &out)
	return &out, err
}

// Appeal objects to how a submission was played, by its miner.
func (c *Client) Appeal(ctx context.Context, submission, reason string) (*agon.Appeal, error) {
	var out agon.Appeal
	_, err := c.json(ctx, post(path("submissions", submission, "appeal"), false), reasoned{reason}, &out)
	return &out, err
}

// AnswerAppeal grants or denies an appeal; for operators.
func (c *Client) AnswerAppeal(ctx context.Context, submission string, grant bool, reason string) (*agon.Appeal, error) {
	var out agon.Appeal
	_, err := c.json(ctx, post(path("submissions", submission, "answer"), false), struct {
		Grant  bool   `json:"grant"`
		Reason string `json:"reason"`
	}{grant, reason}, &out)
	return &out, err
}

// Funding is a payment into a coldkey's purse, or out of it where it is negative.
type Funding struct {
	Micros  agon.Micros `json:"micros" doc:"micro-dollars; negative: out of the purse"`
	Payment string      `json:"payment" doc:"names the payment, such as the hash of its transfer: it counts once" maxLength:"200"`
	Reason  string      `json:"reason" maxLength:"2000"`
}

// FundPurse books a payment into a coldkey's purse; for operators.
func (c *Client) FundPurse(ctx context.Context, coldkey string, f Funding) (*agon.Purse, error) {
	var out agon.Purse
	_, err := c.json(ctx, post(path("purses", coldkey), false), f, &out)
	return &out, err
}

// Purse returns what a coldkey has paid in, and what its entries took.
func (c *Client) Purse(ctx context.Context, coldkey string) (*agon.Purse, error) {
	var out agon.Purse
	_, err := c.json(ctx, get(path("purses", coldkey), nil), nil, &out)
	return &out, err
}

// Retry queues again what a submission lacks through faults of ours; for operators.
func (c *Client) Retry(ctx context.Context, submission, reason string) (*Submission, error) {
	var out Submission
	_, err := c.json(ctx, post(path("submissions", submission, "retry"), false), reasoned{reason}, &out)
	return &out, err
}

// Actions lists what the operator did, newest first; for operators.
func (c *Client) Actions(ctx context.Context) ([]agon.OperatorAction, error) {
	var out Page[agon.OperatorAction]
	_, err := c.json(ctx, get(path("operator", "log"), nil), nil, &out)
	return out.Items, err
}

// Webhooks lists the webhooks of a server; for operators.
func (c *Client) Webhooks(ctx context.Context) (*Webhooks, error) {
	var out Webhooks
	_, err := c.json(ctx, get(path("webhooks"), nil), nil, &out)
	return &out, err
}

// AddWebhook tells an address of events; for operators.
func (c *Client) AddWebhook(ctx context.Context, r WebhookRequest) (*agon.Webhook, error) {
	var out agon.Webhook
	_, err := c.json(ctx, post(path("webhooks"), false), r, &out)
	return &out, err
}

// RemoveWebhook tells it no more; for operators.
func (c *Client) RemoveWebhook(ctx context.Context, id string) (*Webhooks, error) {
	var out Webhooks
	_, err := c.json(ctx, post(path("webhooks", id, "remove"), false), nil, &out)
	return &out, err
}

// SignIn makes a sign-in for a browser in the name of the client's key: a link
// that works once, within a minute (POST /web/sessions).
func (c *Client) SignIn(ctx context.Context) (link string, err error) {
	var out struct {
		Path string `json:"path"`
	}
	if _, err := c.json(ctx, post("/web/sessions", false), nil, &out); err != nil {
		return "", err
	}
	return strings.TrimSuffix(c.base.String(), "/") + out.Path, nil
}

// Submit enters files. Sending the same bytes again returns the same
// submission with Created false, so a lost reply costs nothing.
func (c *Client) Submit(ctx context.Context, arena string, r SubmitRequest) (*Submission, error) {
	var out Submission
	_, err := c.json(ctx, post(path("arenas", arena, "submissions"), true), r, &out)
	return ptr(&out, err)
}

// Submissions lists one page, filtered by arena and miner where not empty.
func (c *Client) Submissions(ctx context.Context, arena, miner string, o ListOptions) (*Page[Submission], error) {
	var out Page[Submission]
	_, err := c.json(ctx, get(path("submissions"), o.query("arena", arena, "miner", miner)), nil, &out)
	return ptr(&out, err)
}

// Submission returns one submission.
func (c *Client) Submission(ctx context.Context, id string) (*Submission, error) {
	var out Submission
	_, err := c.json(ctx, get(path("submissions", id), nil), nil, &out)
	return ptr(&out, err)
}

// SubmissionFiles returns a submission's files. Paths and contents are a
// contestant's: foreign bytes.
func (c *Client) SubmissionFiles(ctx context.Context, id string) ([]File, error) {
	var out Page[File]
	_, err := c.json(ctx, get(path("submissions", id, "files"), nil), nil, &out)
	return out.Items, err
}

// Runs lists one page, filtered where not empty.
func (c *Client) Runs(ctx context.Context, arena, submission, state string, o ListOptions) (*Page[Run], error) {
	var out Page[Run]
	_, err := c.json(ctx, get(path("runs"), o.query("arena", arena, "submission", submission, "state", state)), nil, &out)
	return ptr(&out, err)
}

// ArenaTasks lists the tasks of an arena with their exposure.
func (c *Client) ArenaTasks(ctx context.Context, arena string) ([]ArenaTask, error) {
	var out Page[ArenaTask]
	_, err := c.json(ctx, get(path("arenas", arena, "tasks"), nil), nil, &out)
	return out.Items, err
}

// Seeds lists an arena's set periods, newest first.
func (c *Client) Seeds(ctx context.Context, arena string) ([]SeedPeriod, error) {
	var out Page[SeedPeriod]
	_, err := c.json(ctx, get(path("arenas", arena, "seeds"), nil), nil, &out)
	return out.Items, err
}

// Run returns one run with its attempts.
func (c *Client) Run(ctx context.Context, id string) (*Run, error) {
	var out Run
	_, err := c.json(ctx, get(path("runs", id), nil), nil, &out)
	return ptr(&out, err)
}

// Events returns up to limit events after the cursor, in order; none at the end.
func (c *Client) Events(ctx context.Context, run string, after Cursor, limit int) ([]agon.Event, error) {
	q := url.Values{}
	if after != (Cursor{}) {
		q.Set("after", after.String())
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	var out Page[agon.Event]
	_, err := c.json(ctx, get(path("runs", run, "events"), q), nil, &out)
	return out.Items, err
}

// CancelRun cancels a run; for operators.
func (c *Client) CancelRun(ctx context.Context, run, reason string) error {
	in := struct {
		Reason string `json:"reason"`
	}{reason}
	_, err := c.json(ctx, post(path("runs", run, "cancel"), false), in, nil)
	return err
}

// Claim takes the next run, waiting on the server up to r.WaitMS; nil when
// none came. It is sent once: a repeat could take a second run. A lease whose
// reply is lost runs out by itself.
func (c *Client) Claim(ctx context.Context, r ClaimRequest) (*Lease, error) {
	ca := post(path("leases"), false)
	ca.timeout = time.Duration(r.WaitMS)*time.Millisecond + callTimeout
	var out Lease
	status, err := c.json(ctx, ca, r, &out)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &out, nil
}

// NeededImages returns the images that the tasks of the arenas in r stand on.
func (c *Client) NeededImages(ctx context.Context, r ClaimRequest) (*NeededImages, error) {
	var out NeededImages
	_, err := c.json(ctx, post(path("images"), true), r, &out)
	return ptr(&out, err)
}

// Heartbeat extends a lease and appends events.
func (c *Client) Heartbeat(ctx context.Context, lease string, h Heartbeat) (*HeartbeatReply, error) {
	var out HeartbeatReply
	_, err := c.json(ctx, post(path("leases", lease, "heartbeat"), true), h, &out)
	return ptr(&out, err)
}

// Result reports how an attempt ended.
func (c *Client) Result(ctx context.Context, lease string, r Result) (*ResultReply, error) {
	var out ResultReply
	_, err := c.json(ctx, post(path("leases", lease, "result"), true), r, &out)
	return ptr(&out, err)
}

// ClaimJudging takes the next result to judge again; nil when none came.
func (c *Client) ClaimJudging(ctx context.Context, r ClaimRequest) (*JudgeLease, error) {
	ca := post(path("judge-leases"), false)
	ca.timeout = time.Duration(r.WaitMS)*time.Millisecond + callTimeout
	var out JudgeLease
	status, err := c.json(ctx, ca, r, &out)
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	return &out, nil
}

// BeatJudging extends a judge lease.
func (c *Client) BeatJudging(ctx context.Context, lease string, h JudgeHeartbeat) (*HeartbeatReply, error) {
	var out HeartbeatReply
	_, err := c.json(ctx, post(path("judge-leases", lease, "heartbeat"), true), h, &out)
	return ptr(&out, err)
}

// JudgingResult reports what was made of the evidence.
func (c *Client) JudgingResult(ctx context.Context, lease string, r JudgeResult) (*JudgeReply, error) {
	var out JudgeReply
	_, err := c.json(ctx, post(path("judge-leases", lease, "result"), true), r, &out)
	return ptr(&out, err)
}

// Standings returns how far each validator's word holds.
func (c *Client) Standings(ctx context.Context) (*Standings, error) {
	var out Standings
	_, err := c.json(ctx, get(path("validators", "standing"), nil), nil, &out)
	return ptr(&out, err)
}

// Judgings returns what others made of a run's result.
func (c *Client) Judgings(ctx context.Context, run string) ([]agon.Rejudging, error) {
	var out struct {
		Items []agon.Rejudging `json:"items"`
	}
	_, err := c.json(ctx, get(path("runs", run, "judgings"), nil), nil, &out)
	return out.Items, err
}

// Blob returns the bytes of d, verified against it.
func (c *Client) Blob(ctx context.Context, d agon.Digest) ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	ca := get(path("blobs", string(d)), nil)
	ca.accept, ca.limit, ca.direct = "application/octet-stream", MaxBlob, true
	r, err := c.send(ctx, ca)
	if errors.Is(err, errElsewhere) || err == nil && agon.Sum(r.body) != d {
		ca.direct = false // through the server then
		r, err = c.send(ctx, ca)
	}
	if err != nil {
		return nil, err
	}
	if got := agon.Sum(r.body); got != d {
		return nil, &agon.Error{
			Code: "corrupt_blob", Status: http.StatusBadGateway, Fault: agon.FaultPlatform,
			Message: fmt.Sprintf("blob %s: the server sent bytes of %s", d, got), Mend: "report it to the arena's operator",
		}
	}
	return r.body, nil
}

// PutBlob stores b and returns its digest; the bytes are durable on return. They
// can be evidence of the caller's lease, or with none named of the leases that
// the caller holds now.
func (c *Client) PutBlob(ctx context.Context, lease string, b []byte) (agon.Digest, error) {
	if len(b) > MaxBlob {
		return "", &agon.Error{
			Code: "too_large", Status: http.StatusRequestEntityTooLarge, Limit: fmt.Sprintf("%d bytes", MaxBlob),
			Message: "blob: larger than the limit",
		}
	}
	d := agon.Sum(b)
	to := path("blobs", string(d))
	if lease != "" {
		to += "?" + url.Values{"lease": {lease}}.Encode()
	}
	_, err := c.send(ctx, call{
		method: http.MethodPut, path: to, body: b,
		contentType: "application/octet-stream", idempotent: true, limit: MaxReply, timeout: callTimeout,
	})
	return d, err
}

// Ledger returns a subnet's metagraph.
func (c *Client) Ledger(ctx context.Context, netuid uint16) (*Metagraph, error) {
	var out Metagraph
	_, err := c.json(ctx, get(path("ledger", strconv.Itoa(int(netuid))), nil), nil, &out)
	return ptr(&out, err)
}

// ArenaLedger returns the subnet of an arena, on whichever ledger it is.
func (c *Client) ArenaLedger(ctx context.Context, arena string) (*Metagraph, error) {
	var out Metagraph
	_, err := c.json(ctx, get(path("arenas", arena, "metagraph"), nil), nil, &out)
	return ptr(&out, err)
}

// Register registers a hotkey on a subnet.
func (c *Client) Register(ctx context.Context, netuid uint16, r RegisterRequest) error {
	_, err := c.json(ctx, post(path("ledger", strconv.Itoa(int(netuid)), "register"), false), r, nil)
	return err
}

// Fund gives money of the embedded ledger to a coldkey (operator).
func (c *Client) Fund(ctx context.Context, r FundRequest) (*Balance, error) {
	var out Balance
	_, err := c.json(ctx, post(path("ledger", "fund"), false), r, &out)
	return ptr(&out, err)
}

// SetWeights writes the signer's weights to a subnet.
func (c *Client) SetWeights(ctx context.Context, netuid uint16, r SetWeightsRequest) error {
	_, err := c.json(ctx, post(path("ledger", strconv.Itoa(int(netuid)), "weights"), false), r, nil)
	return err
}

// IsCode reports whether err is, or wraps, a coded error with this code.
func IsCode(err error, code string) bool {
	var e *agon.Error
	return errors.As(err, &e) && e.Code == code
}

func ptr[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
