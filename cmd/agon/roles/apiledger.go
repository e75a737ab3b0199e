package roles

import (
	"context"
	"errors"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
)

// apiLedger is the embedded ledger in the words of /v1.
type apiLedger struct {
	kit.Chain
	own *local.Served
}

// Register implements api.Ledger. A validator's permit and stake are for the
// operator to give; the API has checked that.
func (a apiLedger) Register(ctx context.Context, netuid uint16, signer string, r client.RegisterRequest) (uint16, error) {
	uid, err := a.own.RegisterSigned(ctx, netuid, r.Hotkey, r.Coldkey, signer)
	if err != nil {
		return 0, codedFirst(err)
	}
	if r.Validator {
		if err := a.own.SetValidator(ctx, netuid, r.Hotkey, true, demoStake); err != nil {
			return 0, codedFirst(err)
		}
	}
	return uid, nil
}

// codedFirst keeps a coded error that wraps a refusal of the ledger. What the ledger has
// not refused it could not write.
func codedFirst(err error) error {
	var coded *agon.Error
	if errors.As(err, &coded) || errors.As(kit.LedgerError(err), &coded) {
		return coded
	}
	return &agon.Error{Code: "ledger", Status: 503, Message: "the ledger of this server cannot be written", Mend: "try again", Fault: agon.FaultLedger, Err: err}
}

// Fund implements api.Ledger.
func (a apiLedger) Fund(ctx context.Context, r client.FundRequest) (*client.Balance, error) {
	if err := a.own.Fund(ctx, r.Coldkey, r.Rao); err != nil {
		return nil, codedFirst(err)
	}
	rao, err := a.own.Balance(ctx, r.Coldkey)
	if err != nil {
		return nil, codedFirst(err)
	}
	return &client.Balance{Coldkey: r.Coldkey, Rao: rao}, nil
}

// SetWeights implements api.Ledger.
func (a apiLedger) SetWeights(ctx context.Context, netuid uint16, hotkey string, r client.SetWeightsRequest) error {
	err := a.own.SetWeights(ctx, netuid, hotkey, ledger.Weights{UIDs: r.UIDs, Values: r.Values, VersionKey: r.VersionKey})
	if err != nil {
		return codedFirst(err)
	}
	return nil
}
