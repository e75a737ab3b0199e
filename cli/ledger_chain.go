package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/cli/output"
	"github.com/agon-arena/agon/ledger"
	"github.com/agon-arena/agon/ledger/remote"
	"github.com/agon-arena/agon/ledger/subtensor"
)

func isWS(s string) bool { return strings.HasPrefix(s, "ws://") || strings.HasPrefix(s, "wss://") }

// What --wait says.
const (
	waitInBlock   = "inblock"
	waitFinalized = "finalized"
)

// hotkeySigner signs for the hotkey in force only.
func (a *App) hotkeySigner(address string) (auth.Signer, error) {
	key, err := a.key()
	if err != nil {
		return nil, err
	}
	if key.SS58() != address {
		return nil, &agon.Error{
			Code: "no_key", Status: http.StatusUnauthorized, Message: fmt.Sprintf("%s has to sign, the hotkey in force is %s", address, key.SS58()),
			Mend: "name the wallet with --wallet.name and --wallet.hotkey; what a coldkey signs is done where the coldkey is",
		}
	}
	return key, nil
}

// speaksSubstrate reports whether an address is that of a chain's node. An
// http address is where it does not know the embedded ledger's own paths.
func (a *App) speaksSubstrate(ctx context.Context, place string) bool {
	if isWS(place) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(place, "/")+remote.PathInfo, nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // the client says what is wrong
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusMethodNotAllowed || res.StatusCode == http.StatusUnsupportedMediaType
}

// openChain opens the client of a chain. Several addresses are separated by commas.
func (a *App) openChain(place string) (ledger.Full, func() error, error) {
	switch a.wait {
	case "", waitInBlock, waitFinalized:
	default:
		return nil, nil, output.Usage("wait", "give inblock or finalized", "--wait %q is neither", a.wait)
	}
	c, err := subtensor.New(subtensor.Config{
		URLs: strings.Split(place, ","), Now: a.Now, Signer: a.hotkeySigner, Finalized: a.wait != waitInBlock,
		Included: func(in subtensor.Included) { a.included = &in },
	})
	if err != nil {
		return nil, nil, output.Usage("ledger", "give a file, or an http, https, ws or wss address", "%v", err)
	}
	return c, c.Close, nil
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
