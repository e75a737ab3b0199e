package roles

import (
	"context"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/client"
	"github.com/agon-arena/agon/kinds/kit"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/local"
)

// apiLedger is the embedded ledger in the words of /v1.
type apiLedger struct {
	kit.Chain
	own *local.Ledger
}

// Register implements api.Ledger. A validator's permit and stake are for the
// operator to give; the API has checked that.
func (a apiLedger) Register(ctx context.Context, netuid uint16, r client.RegisterRequest) (uint16, error) {
	for field, s := range map[string]string{"hotkey": r.Hotkey, "coldkey": r.Coldkey} {
		if _, err := auth.ParseSS58(s); err != nil {
			return 0, &agon.Error{Code: "bad_address", Status: 422, Field: field, Message: field + ": " + err.Error()}
		}
	}
	uid, err := a.own.Register(ctx, netuid, r.Hotkey, r.Coldkey)
	if err != nil {
		return 0, kit.LedgerError(err)
	}
	if r.Validator {
		if err := a.own.SetValidator(ctx, netuid, r.Hotkey, true, demoStake); err != nil {
			return 0, kit.LedgerError(err)
		}
	}
	return uid, nil
}

// SetWeights implements api.Ledger.
func (a apiLedger) SetWeights(ctx context.Context, netuid uint16, hotkey string, r client.SetWeightsRequest) error {
	err := a.own.SetWeights(ctx, netuid, hotkey, ledger.Weights{UIDs: r.UIDs, Values: r.Values, VersionKey: r.VersionKey})
	if err != nil {
		return kit.LedgerError(err)
	}
	return nil
}
