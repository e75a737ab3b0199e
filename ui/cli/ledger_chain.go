package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/agent"
	"github.com/agon-arena/agon/auth/coldkey"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/dial"
	"github.com/agon-arena/agon/ledger/subtensor"
	"github.com/agon-arena/agon/ui/cli/output"
)

func isWS(s string) bool { return strings.HasPrefix(s, "ws://") || strings.HasPrefix(s, "wss://") }

// What --wait says.
const (
	waitInBlock   = "inblock"
	waitFinalized = "finalized"
)

// ledgerSigner signs for the hotkey in force, and for the wallet's coldkey where
// its secret is on this machine: registrations and stake are the coldkey's to sign.
func (a *App) ledgerSigner(address string) (auth.Signer, error) {
	key, nokey := a.Key()
	if nokey == nil && key.SS58() == address {
		return key, nil
	}
	w, err := a.wallet()
	if err != nil {
		return nil, err
	}
	if s, err := a.coldSignerElsewhere(address); s != nil || err != nil {
		return s, err
	}
	cold, err := w.ColdkeyAddress()
	if err == nil && cold == address {
		// Opened for this one command; a password comes from BT_PW_… or the terminal.
		k, err := coldkey.Open(w, func(path string) (string, error) { return a.importPassword(keyImportOptions{}, path) })
		if err == nil {
			return coldSigner{k}, nil
		}
		if !errors.Is(err, auth.ErrKeyfileMissing) {
			return nil, err
		}
	}
	if nokey != nil { // what a coldkey signs needs no hotkey
		return nil, nokey
	}
	missing := "the secret of the wallet's coldkey is not on this machine"
	if cold != address {
		missing = "the wallet's coldkey is another one"
	}
	return nil, &agon.Error{
		Code: "no_key", Status: http.StatusUnauthorized, Message: fmt.Sprintf("%s has to sign; the hotkey in force is %s, and %s", address, key.SS58(), missing),
		Mend: "name the wallet with --wallet.name and --wallet.hotkey; do what a coldkey signs where the coldkey is, or name its agent with AGON_COLDKEY_AGENT",
	}
}

const (
	// envColdAgent names the socket of an agent that signs for coldkeys, envColdProgram a
	// program that does.
	envColdAgent   = "AGON_COLDKEY_AGENT"
	envColdProgram = "AGON_COLDKEY_PROGRAM"
)

// coldSignerElsewhere signs for an address with an agent or a program, where one is
// named; nil: none is, or the agent has another key. Neither gets hotkeys to sign for.
func (a *App) coldSignerElsewhere(address string) (auth.Signer, error) {
	if command := a.Env.Getenv(envColdProgram); command != "" {
		return agent.OpenProgram(command, address, a.IO.Err)
	}
	path := a.Env.Getenv(envColdAgent)
	if path == "" {
		return nil, nil
	}
	over, err := a.Over()
	if err != nil {
		return nil, err
	}
	c, err := agent.Dial(path, address, over)
	if refused := (*agent.Error)(nil); errors.As(err, &refused) && refused.Code == agent.CodeUnknownKey {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// coldSigner signs extrinsics of commands with a coldkey.
type coldSigner struct{ k *coldkey.Key }

func (c coldSigner) SS58() string                    { return c.k.Address() }
func (c coldSigner) Sign(msg []byte) ([]byte, error) { return c.k.SignTransaction(msg) }

// envRelays names drand's HTTP relays, with blanks between them.
const envRelays = "AGON_DRAND_RELAYS"

// openAt opens the ledger at an address: that of an embedded ledger's server, or of a chain's nodes.
func (a *App) openAt(ctx context.Context, place string) (ledger.Full, func() error, error) {
	switch a.wait {
	case "", waitInBlock, waitFinalized:
	default:
		return nil, nil, output.Usage("wait", "give inblock or finalized", "--wait %q is neither", a.wait)
	}
	p, err := dial.Parse(place)
	if err != nil {
		return nil, nil, output.Usage("ledger", "give a file, a network, or an http, https, ws or wss address", "%v", err)
	}
	over, err := a.Over()
	if err != nil {
		return nil, nil, err
	}
	return dial.Open(ctx, p, dial.Config{
		Over: over,
		Now:  a.Now, Signer: a.ledgerSigner, InBlock: a.wait == waitInBlock, Included: func(in subtensor.Included) { a.included = &in }, Relays: strings.Fields(a.Env.Getenv(envRelays)),
		Retracted: func(hash string, block uint64) {
			a.IO.Notef("block %d was retracted: extrinsic %s is sent again and watched on", block, hash)
		},
	})
}

// withReceipt adds where the extrinsic is, if the ledger is a chain.
func (a *App) withReceipt(v any) any {
	if a.included == nil {
		return v
	}
	all := map[string]any{}
	for _, part := range []any{v, a.included} {
		b, err := json.Marshal(part)
		if err != nil {
			return v
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber() // rao do not fit a float
		if d.Decode(&all) != nil {
			return v // not an object: it stays what it is
		}
	}
	return all
}
