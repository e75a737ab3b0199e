package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/engine/platform"
)

// Inputs and outputs of handlers; each output has its body alone. The exported
// ones are embedded: huma sets fields of exported embedded types only.
type (
	none       struct{}
	out[T any] struct{ Body T }
	ByArena    struct {
		Arena string `path:"arena" maxLength:"80"`
	}
	ByID struct {
		ID string `path:"id" maxLength:"80"`
	}
	// ByColdkey names a coldkey in the path.
	ByColdkey struct {
		Coldkey string `path:"coldkey" maxLength:"64" doc:"address of the coldkey, or mine"`
	}
	ByNetuid struct {
		Netuid uint16 `path:"netuid"`
	}
	Paged struct {
		Cursor string `query:"cursor" maxLength:"200" doc:"opaque: next of the page before"`
		Limit  int    `query:"limit" minimum:"0" maximum:"200" doc:"rows, default 50"`
	}
)

// noReadTimeout keeps huma from setting a read deadline on the connection:
// bodies were read before huma sees them, and a deadline that passes during a
// long poll cancels the connection's context for good, for every later request on it.
const noReadTimeout = -1

// op registers a handler whose errors become problem+json with a request id.
func op[I, O any](a *server, api huma.API, method, path, id, summary string, h func(ctx context.Context, in *I) (O, error)) {
	o := huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, MaxBodyBytes: limitReport, BodyReadTimeout: noReadTimeout}
	if method != http.MethodGet {
		o.DefaultStatus = http.StatusOK
		o.Description = "Signed (agon-v1)."
	}
	huma.Register(api, o, func(ctx context.Context, in *I) (*out[O], error) {
		v, err := h(ctx, in)
		if err != nil {
			p := problemOf(ctx, err)
			if p.Status >= 500 && !errors.Is(err, context.Canceled) {
				a.cfg.Log.Error("request failed", "request", p.RequestID, "operation", id, "err", err)
			}
			return nil, p
		}
		return &out[O]{Body: v}, nil
	})
}

func (a *server) routes(mux *http.ServeMux, api huma.API) {
	p := a.cfg.Platform
	op(a, api, "GET", "/v1/server", "server", "What this server is, and the audience of signatures", func(context.Context, *none) (client.Server, error) {
		s := a.cfg.Server
		s.Time = a.cfg.Now().UTC()
		return s, nil
	})
	a.arenas(api, p)
	a.operator(api, p)
	a.vettings(api, p)
	a.webhooks(api)
	a.submissions(api, p)
	a.runs(api, p)
	a.leases(mux, api, p)
	a.ledger(api, p)
	a.history(api, p)
}

// history registers proofs from the transparency log. The log itself (checkpoint
// and tiles) is served as files below /log/.
func (a *server) history(api huma.API, p History) {
	op(a, api, "GET", "/v1/log/proof", "log-proof", "Proof that a fact stands in the transparency log", func(ctx context.Context, in *struct {
		Type string `query:"type" required:"true" enum:"submission,result,decision,operator,key,weights,seeds,reveal,judging,task,retired"`
		ID   string `query:"id" required:"true" maxLength:"200" doc:"of the submission, RUN/ATTEMPT, the challenger, or what the operator acted on"`
	},
	) (*client.LogProof, error) {
		return p.Proof(ctx, caller(ctx), in.Type, in.ID)
	})
	op(a, api, "GET", "/v1/log/consistency", "log-consistency", "Proof that the log of a size begins the newest one", func(ctx context.Context, in *struct {
		Size int64 `query:"size" minimum:"1"`
	},
	) (*client.LogConsistency, error) {
		return p.Consistency(ctx, in.Size)
	})
	op(a, api, "GET", "/v1/runs/{id}/receipts", "run-receipts", "Receipts of an attempt, for those who may read its trace", func(ctx context.Context, in *struct {
		ByID
		Attempt int `query:"attempt" minimum:"1"`
	},
	) (client.Page[agon.Receipt], error) {
		list, err := p.Receipts(ctx, caller(ctx), in.ID, in.Attempt)
		return client.Page[agon.Receipt]{Items: list}, err
	})
}

// arenas registers what is read of arenas.
func (a *server) arenas(api huma.API, p Arenas) {
	op(a, api, "GET", "/v1/overview", "overview", "All arenas with boards, and counts of runs", func(ctx context.Context, _ *none) (*client.Overview, error) {
		return p.Overview(ctx)
	})
	op(a, api, "GET", "/v1/arenas", "list-arenas", "List arenas", func(ctx context.Context, _ *none) (client.Page[client.Arena], error) {
		as, err := p.Arenas(ctx)
		return client.Page[client.Arena]{Items: as}, err
	})
	op(a, api, "GET", "/v1/arenas/{arena}", "view-arena", "One arena: tasks, policy, seat, queue", func(ctx context.Context, in *ByArena) (*client.Arena, error) {
		return p.Arena(ctx, in.Arena)
	})
	op(a, api, "GET", "/v1/arenas/{arena}/board", "board", "Leaderboard, decisions and weights", func(ctx context.Context, in *ByArena) (*client.Board, error) {
		return p.Board(ctx, in.Arena)
	})
	op(a, api, "GET", "/v1/arenas/{arena}/seeds", "arena-seeds", "Set periods, newest first: commitments of the secrets that seeds come of, and the secrets of those that have ended", func(ctx context.Context, in *ByArena) (client.Page[client.SeedPeriod], error) {
		list, err := p.Seeds(ctx, in.Arena)
		return client.Page[client.SeedPeriod]{Items: list}, err
	})
	op(a, api, "GET", "/v1/arenas/{arena}/tasks", "arena-tasks", "Tasks of an arena: how much was seen of each, and the commitments of hidden ones, which the operator reads by name", func(ctx context.Context, in *ByArena) (client.Page[client.ArenaTask], error) {
		list, err := p.ArenaTasks(ctx, caller(ctx), in.Arena)
		return client.Page[client.ArenaTask]{Items: list}, err
	})
	op(a, api, "GET", "/v1/arenas/{arena}/weights", "target-weights", "Weights that the incentive rule wants now", func(ctx context.Context, in *ByArena) (*client.Target, error) {
		return p.Target(ctx, in.Arena)
	})
}

// submissions registers entering and reading.
func (a *server) submissions(api huma.API, p Submissions) {
	op(a, api, "POST", "/v1/arenas/{arena}/submissions", "submit", "Enter a submission; the signer is the miner", func(ctx context.Context, in *struct {
		ByArena
		Body client.SubmitRequest
	},
	) (*client.Submission, error) {
		return p.Submit(ctx, caller(ctx), in.Arena, in.Body)
	})
	op(a, api, "GET", "/v1/submissions", "list-submissions", "List submissions, newest first", func(ctx context.Context, in *struct {
		Paged
		Arena string `query:"arena" maxLength:"80"`
		Miner string `query:"miner" maxLength:"64"`
	},
	) (*client.Page[client.Submission], error) {
		return p.Submissions(ctx, caller(ctx), in.Arena, in.Miner, in.Cursor, in.Limit)
	})
	op(a, api, "GET", "/v1/submissions/{id}", "view-submission", "One submission", func(ctx context.Context, in *ByID) (*client.Submission, error) {
		return p.Submission(ctx, caller(ctx), in.ID)
	})
	op(a, api, "GET", "/v1/submissions/{id}/files", "submission-files", "Files of a submission, as far as the caller may read them", func(ctx context.Context, in *ByID) (client.Page[client.File], error) {
		fs, err := p.SubmissionFiles(ctx, caller(ctx), in.ID)
		return client.Page[client.File]{Items: fs}, err
	})
}

// runs registers what is read of runs.
func (a *server) runs(api huma.API, p Runs) {
	op(a, api, "GET", "/v1/runs", "list-runs", "List runs, newest first", func(ctx context.Context, in *struct {
		Paged
		Arena      string `query:"arena" maxLength:"80"`
		Submission string `query:"submission" maxLength:"80"`
		State      string `query:"state" enum:"queued,leased,playing,judging,scored,failed,cancelled"`
	},
	) (*client.Page[client.Run], error) {
		return p.Runs(ctx, caller(ctx), in.Arena, in.Submission, in.State, in.Cursor, in.Limit)
	})
	op(a, api, "GET", "/v1/runs/{id}", "view-run", "One run with its attempts", func(ctx context.Context, in *ByID) (*client.Run, error) {
		return p.Run(ctx, caller(ctx), in.ID)
	})
	op(a, api, "GET", "/v1/runs/{id}/judgings", "run-judgings", "What other validators made of a run's result", func(ctx context.Context, in *ByID) (client.Page[agon.Rejudging], error) {
		list, err := p.Judgings(ctx, caller(ctx), in.ID)
		return client.Page[agon.Rejudging]{Items: list}, err
	})
	op(a, api, "GET", "/v1/validators/standing", "validators-standing", "How far the word of each validator holds, with the cases against it", func(ctx context.Context, _ *none) (*client.Standings, error) {
		return p.ValidatorStandings(ctx)
	})
	op(a, api, "GET", "/v1/runs/{id}/events", "run-events", "Events of a run after a cursor", func(ctx context.Context, in *struct {
		ByID
		After string `query:"after" maxLength:"40" doc:"ATTEMPT.SEQ of the last event that was seen"`
		Limit int    `query:"limit" minimum:"0" maximum:"1000"`
	},
	) (client.Page[agon.Event], error) {
		at, seq, err := parseCursor(in.After)
		if err != nil {
			return client.Page[agon.Event]{}, err
		}
		if in.Limit == 0 {
			in.Limit = 200
		}
		evs, err := p.Events(ctx, caller(ctx), in.ID, at, seq, in.Limit)
		pg := client.Page[agon.Event]{Items: evs}
		if len(evs) == in.Limit {
			pg.Next = cursorOf(evs[len(evs)-1])
		}
		return pg, err
	})
}

type canaryList struct {
	Items []agon.Canary `json:"items"`
}

// operating is what operators do, and reads of what they changed.
type operating interface {
	Operator
	Appeals
	Purses
	OperatorLog
	Arena(ctx context.Context, id string) (*client.Arena, error)
	Submission(ctx context.Context, c platform.Caller, id string) (*client.Submission, error)
	Run(ctx context.Context, c platform.Caller, id string) (*client.Run, error)
}

// operator registers what operators do: each replies with what was changed.
func (a *server) operator(api huma.API, p operating) {
	op(a, api, "POST", "/v1/arenas/{arena}/state", "set-arena-state", "Open, pause, hold or close an arena (operator)", func(ctx context.Context, in *struct {
		ByArena
		Body struct {
			State  agon.ArenaState `json:"state" enum:"open,paused,held,closed"`
			Reason string          `json:"reason,omitempty" maxLength:"2000"`
		}
	},
	) (*client.Arena, error) {
		if err := p.SetArenaState(ctx, caller(ctx), in.Arena, in.Body.State, in.Body.Reason); err != nil {
			return nil, err
		}
		return p.Arena(ctx, in.Arena)
	})
	op(a, api, "POST", "/v1/arenas/{arena}/retune", "retune-arena", "Change an arena's numbers, with a reason (operator)", func(ctx context.Context, in *struct {
		ByArena
		Body client.RetuneRequest
	},
	) (*client.Arena, error) {
		if err := p.Retune(ctx, caller(ctx), in.Arena, in.Body.Retune, in.Body.Reason); err != nil {
			return nil, err
		}
		return p.Arena(ctx, in.Arena)
	})
	op(a, api, "POST", "/v1/arenas/{arena}/retune-plan", "plan-retune", "Tell what a change of an arena's numbers would do; nothing is changed (operator)", func(ctx context.Context, in *struct {
		ByArena
		Body client.Retune
	},
	) (*client.RetunePlan, error) {
		return p.RetunePlan(ctx, caller(ctx), in.Arena, in.Body)
	})
	op(a, api, "POST", "/v1/arenas/{arena}/gateway-key", "gateway-key", "Put another key of the arena's gateway in force: by the old key's word, or revoking it (operator)", func(ctx context.Context, in *struct {
		ByArena
		Body client.GatewayKey
	},
	) (*client.Arena, error) {
		if err := p.GatewayKey(ctx, caller(ctx), in.Arena, in.Body); err != nil {
			return nil, err
		}
		return p.Arena(ctx, in.Arena)
	})
	op(a, api, "POST", "/v1/submissions/{id}/ban", "ban-submission", "Take a submission out of its arena (operator)", func(ctx context.Context, in *struct {
		ByID
		Body struct {
			Reason string `json:"reason" maxLength:"2000"`
		}
	},
	) (*client.Submission, error) {
		if err := p.Ban(ctx, caller(ctx), in.ID, in.Body.Reason); err != nil {
			return nil, err
		}
		return p.Submission(ctx, caller(ctx), in.ID)
	})
	op(a, api, "POST", "/v1/submissions/{id}/appeal", "appeal-submission", "Object to how a submission was played: others play it again (its miner)", func(ctx context.Context, in *struct {
		ByID
		Body struct {
			Reason string `json:"reason" maxLength:"2000"`
		}
	},
	) (*agon.Appeal, error) {
		return p.Appeal(ctx, caller(ctx), in.ID, in.Body.Reason)
	})
	op(a, api, "POST", "/v1/submissions/{id}/answer", "answer-appeal", "Grant or deny an appeal, with a reason (operator)", func(ctx context.Context, in *struct {
		ByID
		Body struct {
			Grant  bool   `json:"grant"`
			Reason string `json:"reason" maxLength:"2000"`
		}
	},
	) (*agon.Appeal, error) {
		return p.AnswerAppeal(ctx, caller(ctx), in.ID, in.Body.Grant, in.Body.Reason)
	})
	op(a, api, "POST", "/v1/runs/{id}/canary", "make-canary", "Have a run of known outcome played by validators, whose word is measured so (operator)", func(ctx context.Context, in *struct {
		ByID
		Body client.CanaryRequest
	},
	) (*agon.Canary, error) {
		return p.MakeCanary(ctx, caller(ctx), in.ID, in.Body)
	})
	op(a, api, "GET", "/v1/arenas/{arena}/canaries", "list-canaries", "Plays of known outcome, and what validators made of them (operator)", func(ctx context.Context, in *struct{ ByArena }) (*canaryList, error) {
		list, err := p.Canaries(ctx, caller(ctx), in.Arena)
		return &canaryList{list}, err
	})
	op(a, api, "POST", "/v1/purses/{coldkey}", "fund-purse", "Book a payment into a coldkey's purse, or out of it (operator)", func(ctx context.Context, in *struct {
		ByColdkey
		Body client.Funding
	},
	) (*agon.Purse, error) {
		return p.Fund(ctx, caller(ctx), in.Coldkey, in.Body.Micros, in.Body.Payment, in.Body.Reason)
	})
	op(a, api, "GET", "/v1/purses/{coldkey}", "get-purse", "What a coldkey has paid in, and what its entries took (its hotkeys, operator)", func(ctx context.Context, in *struct{ ByColdkey }) (*agon.Purse, error) {
		return p.Purse(ctx, caller(ctx), in.Coldkey)
	})
	op(a, api, "POST", "/v1/submissions/{id}/retry", "retry-submission", "Play again what a submission lacks through faults of ours (operator)", func(ctx context.Context, in *struct {
		ByID
		Body struct {
			Reason string `json:"reason" maxLength:"2000"`
		}
	},
	) (*client.Submission, error) {
		if _, err := p.Retry(ctx, caller(ctx), in.ID, in.Body.Reason); err != nil {
			return nil, err
		}
		return p.Submission(ctx, caller(ctx), in.ID)
	})
	op(a, api, "POST", "/v1/runs/{id}/cancel", "cancel-run", "Cancel a run (operator)", func(ctx context.Context, in *struct {
		ByID
		Body struct {
			Reason string `json:"reason" maxLength:"200"`
		}
	},
	) (*client.Run, error) {
		if err := p.CancelRun(ctx, caller(ctx), in.ID, in.Body.Reason); err != nil {
			return nil, err
		}
		return p.Run(ctx, caller(ctx), in.ID)
	})
	op(a, api, "GET", "/v1/operator/log", "operator-log", "What the operator did and why, newest first (operator)", func(ctx context.Context, _ *none) (client.Page[agon.OperatorAction], error) {
		list, err := p.Actions(ctx, caller(ctx), 200)
		return client.Page[agon.OperatorAction]{Items: list}, err
	})
}

func (a *server) ledger(api huma.API, p Arenas) {
	l := a.cfg.Ledger
	op(a, api, "GET", "/v1/ledger/{netuid}", "metagraph", "Metagraph and weights of a subnet", func(ctx context.Context, in *ByNetuid) (*client.Metagraph, error) {
		return l.Metagraph(ctx, in.Netuid)
	})
	op(a, api, "GET", "/v1/arenas/{arena}/metagraph", "arena-metagraph", "Metagraph and weights of the arena's subnet, on whichever ledger it is", func(ctx context.Context, in *ByArena) (*client.Metagraph, error) {
		x, err := p.Arena(ctx, in.Arena)
		if err != nil {
			return nil, err
		}
		if x.Ledger == "" || a.cfg.LedgerOf == nil {
			return l.Metagraph(ctx, x.Netuid)
		}
		return a.cfg.LedgerOf(x.Arena).Metagraph(ctx, x.Netuid)
	})
	op(a, api, "POST", "/v1/ledger/{netuid}/register", "register", "Register a hotkey on the embedded ledger", func(ctx context.Context, in *struct {
		ByNetuid
		Body client.RegisterRequest
	},
	) (map[string]any, error) {
		c := caller(ctx)
		if !c.Operator && in.Body.Validator {
			return nil, &agon.Error{Code: "operator_only", Status: 403, Field: "validator", Message: "only the operator gives permits", Mend: "sign with the operator's key"}
		}
		uid, err := l.Register(ctx, in.Netuid, c.Hotkey, in.Body)
		if err != nil {
			return nil, err
		}
		return map[string]any{"netuid": in.Netuid, "hotkey": in.Body.Hotkey, "uid": uid}, nil
	})
	op(a, api, "POST", "/v1/ledger/fund", "fund", "Make money on the embedded ledger and give it to a coldkey (operator)", func(ctx context.Context, in *struct{ Body client.FundRequest }) (*client.Balance, error) {
		if !caller(ctx).Operator {
			return nil, &agon.Error{Code: "operator_only", Status: 403, Message: "only the operator may do this", Mend: "sign with the operator's key"}
		}
		return l.Fund(ctx, in.Body)
	})
	op(a, api, "POST", "/v1/ledger/{netuid}/weights", "set-weights", "Set the signer's weights", func(ctx context.Context, in *struct {
		ByNetuid
		Body client.SetWeightsRequest
	},
	) (*client.Metagraph, error) {
		if err := l.SetWeights(ctx, in.Netuid, caller(ctx).Hotkey, in.Body); err != nil {
			return nil, err
		}
		return l.Metagraph(ctx, in.Netuid)
	})
}

func writeProblem(w http.ResponseWriter, p *problem) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone if this fails
}
