// Package serve offers a ledger to other processes over HTTP: open reads,
// signed extrinsics. ledger/remote is the client.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/remote"
)

// Config configures a handler.
type Config struct {
	Ledger ledger.Full
	// Verifier checks signatures; its audience is told to clients. The embedded
	// ledger can be its replay guard.
	Verifier *auth.Verifier
	// BlockTime is told to clients; 0 = stepped by hand.
	BlockTime time.Duration
	// Log takes what clients are not told; nil = none.
	Log *slog.Logger
}

// signedRegistrar lets a hotkey sign a registration that costs nothing.
type signedRegistrar interface {
	RegisterSigned(ctx context.Context, netuid uint16, hotkey, coldkey, signer string) (uint16, error)
}

type handler struct{ cfg Config }

// New makes the handler of all paths that begin with remote.PathInfo.
func New(cfg Config) http.Handler {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	h := &handler{cfg}
	mux := http.NewServeMux()
	handle := func(pattern string, f func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := f(r)
			if err != nil {
				h.problem(w, r, err)
				return
			}
			h.answer(w, r, http.StatusOK, "application/json", v)
		})
	}
	handle("GET "+remote.PathInfo, h.info)
	handle("GET "+remote.PathSubnets+"{netuid}", h.metagraph)
	handle("GET "+remote.PathSubnets+"{netuid}/commitments", h.commitments)
	handle("GET "+remote.PathSubnets+"{netuid}/commitments/{hotkey}", h.history)
	handle("GET "+remote.PathBalances+"{coldkey}", h.balance)
	handle("POST "+remote.PathExtrinsics, h.extrinsic)
	handle(remote.PathInfo+"/", func(r *http.Request) (any, error) {
		return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Message: "no " + r.Method + " here"}
	})
	return mux
}

func (h *handler) info(r *http.Request) (any, error) {
	block, err := h.cfg.Ledger.Block(r.Context())
	if err != nil {
		return nil, err
	}
	subnets, err := h.cfg.Ledger.Subnets(r.Context())
	if err != nil {
		return nil, err
	}
	if subnets == nil {
		subnets = []uint16{}
	}
	return remote.Info{Audience: h.cfg.Verifier.Audience, Block: block, BlockTimeMS: h.cfg.BlockTime.Milliseconds(), Subnets: subnets}, nil
}

func netuid(r *http.Request) (uint16, error) {
	n, err := strconv.ParseUint(r.PathValue("netuid"), 10, 16)
	if err != nil {
		return 0, bad("netuid", "netuid is not a number from 0 to 65535")
	}
	return uint16(n), nil
}

func (h *handler) metagraph(r *http.Request) (any, error) {
	n, err := netuid(r)
	if err != nil {
		return nil, err
	}
	return h.cfg.Ledger.Metagraph(r.Context(), n)
}

func (h *handler) commitments(r *http.Request) (any, error) {
	n, err := netuid(r)
	if err != nil {
		return nil, err
	}
	return h.cfg.Ledger.Commitments(r.Context(), n)
}

func (h *handler) history(r *http.Request) (any, error) {
	n, err := netuid(r)
	if err != nil {
		return nil, err
	}
	var from uint64
	if s := r.URL.Query().Get("from"); s != "" {
		if from, err = strconv.ParseUint(s, 10, 64); err != nil {
			return nil, bad("from", "from is not a block")
		}
	}
	return h.cfg.Ledger.History(r.Context(), n, r.PathValue("hotkey"), from)
}

func (h *handler) balance(r *http.Request) (any, error) {
	rao, err := h.cfg.Ledger.Balance(r.Context(), r.PathValue("coldkey"))
	return remote.Balance{Rao: rao}, err
}

func (h *handler) extrinsic(r *http.Request) (any, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, remote.MaxExtrinsic))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &agon.Error{Code: "too_large", Status: http.StatusRequestEntityTooLarge, Limit: fmt.Sprintf("%d bytes", remote.MaxExtrinsic), Message: "the extrinsic is too large"}
	case err != nil:
		return nil, &agon.Error{Code: "bad_body", Status: http.StatusBadRequest, Message: "the body could not be read", Err: err}
	}
	signer, refused := h.cfg.Verifier.Verify(r.Context(), r.Method, auth.RequestTarget(r), r.Header, body)
	if refused != nil {
		return nil, refused
	}
	x, err := parse(body)
	if err != nil {
		return nil, err
	}
	return h.apply(r.Context(), x, signer)
}

// parse reads an extrinsic: known fields only, and one object.
func parse(body []byte) (*remote.Extrinsic, error) {
	var x remote.Extrinsic
	if err := strictJSON(body, &x); err != nil {
		return nil, &agon.Error{Code: "bad_body", Status: http.StatusUnprocessableEntity, Message: "the extrinsic cannot be read: " + err.Error()}
	}
	var missing string
	switch x.Call {
	case remote.CallSetWeights, remote.CallRevealWeights:
		if x.Weights == nil {
			missing = "weights"
		}
	case remote.CallCommitWeights:
		if x.Hash == nil {
			missing = "hash"
		}
	case remote.CallRegister, remote.CallCommit, remote.CallAddStake, remote.CallRemoveStake:
	default:
		return nil, bad("call", "call is unknown")
	}
	if missing != "" {
		return nil, bad(missing, x.Call+" needs "+missing)
	}
	return &x, nil
}

// apply makes the change if signer may.
func (h *handler) apply(ctx context.Context, x *remote.Extrinsic, signer string) (in remote.Included, err error) {
	l := h.cfg.Ledger
	switch owner := x.Coldkey; x.Call {
	case remote.CallRegister:
		registrar, ok := l.(signedRegistrar)
		switch {
		case signer == owner || ok && signer == x.Hotkey:
		default:
			return in, ledger.ErrBadOrigin.With("a registration is signed by the coldkey, or by the hotkey where it is free")
		}
		if ok {
			in.UID, err = registrar.RegisterSigned(ctx, x.Netuid, x.Hotkey, owner, signer)
		} else {
			in.UID, err = l.Register(ctx, x.Netuid, x.Hotkey, owner)
		}
	case remote.CallAddStake, remote.CallRemoveStake:
		if signer != owner {
			return in, ledger.ErrBadOrigin.With("stake is moved by the coldkey's signature")
		}
		move := l.AddStake
		if x.Call == remote.CallRemoveStake {
			move = l.RemoveStake
		}
		err = move(ctx, x.Netuid, x.Hotkey, owner, x.Rao)
	default:
		if signer != x.Hotkey {
			return in, ledger.ErrBadOrigin.With("the signer is not the hotkey")
		}
		in.Block, err = h.asHotkey(ctx, x)
	}
	if err != nil {
		return in, err
	}
	if x.Call != remote.CallCommit { // its block is its stamp
		in.Block, err = l.Block(ctx)
	}
	return in, err
}

func (h *handler) asHotkey(ctx context.Context, x *remote.Extrinsic) (block uint64, err error) {
	l := h.cfg.Ledger
	switch x.Call {
	case remote.CallCommit:
		return l.Commit(ctx, x.Netuid, x.Hotkey, x.Fields...)
	case remote.CallSetWeights, remote.CallCommitWeights, remote.CallRevealWeights:
		if x.Mechanism > 0 {
			return 0, onMechanism(ctx, l, x)
		}
	}
	switch x.Call {
	case remote.CallSetWeights:
		return 0, l.SetWeights(ctx, x.Netuid, x.Hotkey, *x.Weights)
	case remote.CallCommitWeights:
		return 0, l.CommitWeights(ctx, x.Netuid, x.Hotkey, *x.Hash)
	case remote.CallRevealWeights:
		return 0, l.RevealWeights(ctx, x.Netuid, x.Hotkey, *x.Weights, x.Salt)
	}
	return 0, bad("call", "call is unknown")
}

// mechanisms is a ledger whose subnets may have several mechanisms.
type mechanisms interface {
	SetMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights) error
	CommitMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, hash ledger.Hash) error
	RevealMechanismWeights(ctx context.Context, netuid uint16, mechanism uint8, hotkey string, w ledger.Weights, salt []uint16) error
}

// onMechanism makes a call about weights of a mechanism after the first.
func onMechanism(ctx context.Context, l ledger.Full, x *remote.Extrinsic) error {
	of, ok := l.(mechanisms)
	switch {
	case !ok:
		return ledger.ErrMechanismNotExists
	case x.Call == remote.CallSetWeights:
		return of.SetMechanismWeights(ctx, x.Netuid, x.Mechanism, x.Hotkey, *x.Weights)
	case x.Call == remote.CallCommitWeights:
		return of.CommitMechanismWeights(ctx, x.Netuid, x.Mechanism, x.Hotkey, *x.Hash)
	}
	return of.RevealMechanismWeights(ctx, x.Netuid, x.Mechanism, x.Hotkey, *x.Weights, x.Salt)
}

func bad(field, message string) error {
	return &agon.Error{Code: "bad_request", Status: http.StatusUnprocessableEntity, Field: field, Message: message}
}

// problem is the one place where errors become public.
func (h *handler) problem(w http.ResponseWriter, r *http.Request, err error) {
	p := remote.Problem{Code: "internal", Status: http.StatusInternalServerError, Detail: "internal error of the ledger", Fault: string(agon.FaultLedger)}
	var refusal *ledger.Error
	var coded *agon.Error
	switch {
	case errors.As(err, &refusal):
		p = remote.Problem{Code: refusal.Name, Status: http.StatusConflict, Detail: refusal.Message, Refused: true}
		switch {
		case errors.Is(err, ledger.ErrSubnetNotExists):
			p.Status = http.StatusNotFound
		case errors.Is(err, ledger.ErrBadOrigin):
			p.Status = http.StatusForbidden
		}
	case errors.As(err, &coded):
		p = remote.Problem{Code: coded.Code, Status: coded.Status, Detail: coded.Message, Field: coded.Field, Limit: coded.Limit, Mend: coded.Mend, Fault: string(coded.Fault)}
		if p.Status < 400 || p.Status > 599 {
			p.Status = http.StatusInternalServerError
		}
	case r.Context().Err() != nil:
		return // nobody listens
	}
	if p.Status >= 500 {
		h.cfg.Log.Error("ledger request", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	p.Title = http.StatusText(p.Status)
	h.answer(w, r, p.Status, "application/problem+json", p)
}

func (h *handler) answer(w http.ResponseWriter, r *http.Request, status int, contentType string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		h.cfg.Log.Error("encode answer", "path", r.URL.Path, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := w.Write(append(b, '\n')); err != nil {
		h.cfg.Log.Debug("write answer", "path", r.URL.Path, "err", err)
	}
}
