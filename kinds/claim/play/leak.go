package play

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/agon-arena/agon"
)

// LeakKeys implements kind.LeakKeyer: a claim by its id and its words, and the
// factoids that it turns on, which are the passages that its reference cites.
func (k *Kind) LeakKeys(_ agon.TaskRef, read func(string) ([]byte, error)) ([]string, error) {
	b, err := read(ClaimFile)
	if err != nil {
		return nil, err
	}
	var c struct {
		ID      string `json:"claim_id"`
		Payload struct {
			Text string `json:"claim_text"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("read %s: %w", ClaimFile, err)
	}
	words := strings.Join(strings.Fields(strings.ToLower(c.Payload.Text)), " ")
	keys := []string{"claim " + c.ID, "text " + string(agon.Sum([]byte(words)))}
	b, err = read(ReferenceFile)
	if errors.Is(err, fs.ErrNotExist) {
		return keys, nil
	}
	if err != nil {
		return nil, err
	}
	var r struct {
		Citations []struct {
			URL  string `json:"url"`
			Note string `json:"note"`
		} `json:"citations"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("read %s: %w", ReferenceFile, err)
	}
	for _, x := range r.Citations {
		keys = append(keys, "factoid "+string(agon.Sum([]byte(x.URL+"\n"+x.Note))))
	}
	return keys, nil
}
