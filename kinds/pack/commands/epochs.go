package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/kinds/pack/epochs"
	"github.com/agon-arena/agon/ui/cli"
	"github.com/agon-arena/agon/ui/cli/config"
	"github.com/agon-arena/agon/ui/cli/output"
	"github.com/spf13/cobra"
)

// maxEpochs bounds what a server may answer, in bytes.
const maxEpochs = 64 << 20

func (a commands) discoverEpochsCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "epochs",
		Short: "Work out again who a server's epochs seat, and raise an alarm where it differs",
		Long: `Read every epoch of the server at --url with the scores that validators gave, work each end and
the seat out from the scores alone, and compare what the server publishes. A validator that takes
the winner over from a server runs this first; stale says that the last end is more than a day
old, so that the winner is not to be paid but burned.
JSON: {epochs, published, winner, agreed, stale, alarms[{epoch, what}]}.
Exit codes: 0 all follows from the scores, 1 an alarm.`,
		Example: "  agon discover epochs --url http://127.0.0.1:8900\n  agon discover epochs -o json",
		Args:    cli.Args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			common, done, err := a.Common()
			if err != nil {
				return err
			}
			defer done()
			r, err := auditEpochs(cmd.Context(), strings.TrimRight(common.Config.Get(config.URL), "/"), time.Now()) //nolint:forbidigo // how old the last end is
			if err != nil {
				return err
			}
			done()
			if err := a.Printer.Print(cmd.Context(), output.Result{Value: r, Human: func(h *output.Human) { epochsFor(h, r) }}); err != nil {
				return err
			}
			if !r.Agreed {
				return &cli.Exit{Code: cli.CodeFailed}
			}
			return nil
		},
	}
}

func epochsFor(h *output.Human, r *epochs.Audited) {
	name := func(s *epochs.Seat) string {
		if s == nil {
			return "nobody"
		}
		return fmt.Sprintf("%s at %.4f since epoch %d", s.Miner, s.Score, s.Since)
	}
	h.Fields([2]string{"epochs", fmt.Sprint(r.Epochs)}, [2]string{"published", name(r.Published)}, [2]string{"worked out", name(r.Winner)})
	if r.Stale {
		h.Line("no epoch ended within a day: burn, and pay nobody")
	}
	for _, x := range r.Alarms {
		if x.Epoch == 0 {
			h.Line("ALARM: %s", x.What)
		} else {
			h.Line("ALARM: epoch %d: %s", x.Epoch, x.What)
		}
	}
	if r.Agreed {
		h.Line("all of it follows from the scores")
	}
}

// auditEpochs reads a server's epochs and what it says of its winner, by two routes.
func auditEpochs(ctx context.Context, url string, now time.Time) (*epochs.Audited, error) {
	var list struct {
		Epochs []epochs.Epoch `json:"epochs"`
	}
	var won struct {
		Winner *struct {
			Miner string  `json:"hotkey"`
			Hash  string  `json:"pack_hash"`
			Score float64 `json:"score"`
			Since int64   `json:"since_epoch_id"`
		} `json:"winner"`
		Last *struct {
			At time.Time `json:"finalized_at"`
		} `json:"finalized_epoch"`
	}
	// The winner is read first: an epoch that ends between the two is not an alarm.
	if err := readEpochs(ctx, url+"/api/v2/winner/current", &won); err != nil {
		return nil, err
	}
	if err := readEpochs(ctx, url+"/api/v2/epochs", &list); err != nil {
		return nil, err
	}
	p := epochs.Published{}
	if won.Last != nil {
		p.At = won.Last.At
		for len(list.Epochs) > 0 && list.Epochs[len(list.Epochs)-1].Finalized.Truncate(time.Millisecond).After(p.At) {
			list.Epochs = list.Epochs[:len(list.Epochs)-1]
		}
	}
	if won.Winner != nil {
		p.Winner = &epochs.Seat{Miner: won.Winner.Miner, Hash: won.Winner.Hash, Score: won.Winner.Score, Since: won.Winner.Since}
	}
	return epochs.Audit(list.Epochs, p, now), nil
}

func readEpochs(ctx context.Context, url string, v any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return &agon.Error{Code: "bad_url", Status: 422, Field: "url", Message: "this is not an address of a server: " + url}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return &agon.Error{Code: "unreachable", Status: 503, Field: "url", Message: "the server does not answer: " + err.Error(), Mend: "is it up? agon discover epochs --url names another"}
	}
	defer func() { _ = resp.Body.Close() }() // read to its end or given up
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxEpochs+1))
	switch {
	case err != nil:
		return &agon.Error{Code: "unreachable", Status: 503, Field: "url", Message: "the server's answer broke off: " + err.Error()}
	case resp.StatusCode == http.StatusNotFound:
		return &agon.Error{Code: "not_found", Status: 404, Field: "url", Message: "this server leads no epochs", Mend: `an arena does with epochs = "on" under [options]`}
	case resp.StatusCode != http.StatusOK || len(b) > maxEpochs:
		return &agon.Error{Code: "bad_reply", Status: 502, Field: "url", Message: fmt.Sprintf("the server answered %s with %d bytes", resp.Status, len(b))}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return &agon.Error{Code: "bad_reply", Status: 502, Field: "url", Message: "the server's answer is not what this reads: " + err.Error()}
	}
	return nil
}
