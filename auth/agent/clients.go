package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/auth/certs"
	"github.com/agon-arena/agon/internal/reread"
)

const (
	maxClientsFile = 1 << 20 // bytes
	maxClients     = 10_000
)

// Clients says who may ask over the network: by the names in their certificates.
type Clients map[string]*Caller

// Caller is one who may ask over the network.
type Caller struct {
	name string
	keys []string // empty: all of the agent
	only Policy   // beside the agent's own
}

// OpenClients reads a file of ParseClients. A change of it is in force at the next request.
func OpenClients(path string, log *slog.Logger) (*reread.Files[Clients], error) {
	return reread.Open(reread.Config[Clients]{
		Paths: []string{path}, Most: maxClientsFile, Log: log, Make: func(all [][]byte) (Clients, error) { return ParseClients(all[0]) },
		Said: func(c Clients) []any { return []any{"clients", len(c)} },
	})
}

// ParseClients reads who may ask, in TOML: tables [[client]] with the name in its
// certificate, its keys (addresses; none: all of the agent) and what is signed for it,
// as ParsePolicy has it (allow, genesis, per_day).
func ParseClients(b []byte) (Clients, error) {
	var doc struct {
		Client []struct {
			Name    string   `toml:"name"`
			Keys    []string `toml:"keys"`
			Allow   []string `toml:"allow"`
			Genesis []string `toml:"genesis"`
			PerDay  string   `toml:"per_day"`
		} `toml:"client"`
	}
	d := toml.NewDecoder(strings.NewReader(string(b)))
	if err := d.DisallowUnknownFields().Decode(&doc); err != nil {
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) && len(strict.Errors) > 0 {
			return nil, fmt.Errorf("clients: no such setting: %s", strings.Join(strict.Errors[0].Key(), "."))
		}
		return nil, fmt.Errorf("clients: %w", err)
	}
	if len(doc.Client) > maxClients {
		return nil, fmt.Errorf("clients: %d of them: at most %d", len(doc.Client), maxClients)
	}
	out := Clients{}
	for i, c := range doc.Client {
		at := fmt.Sprintf("client %d (%.64q)", i+1, c.Name)
		if err := certs.CheckName(c.Name); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		if out[c.Name] != nil {
			return nil, fmt.Errorf("%s: the name is taken", at)
		}
		for _, k := range c.Keys {
			if _, err := auth.ParseSS58(k); err != nil {
				return nil, fmt.Errorf("%s: keys: %w", at, err)
			}
		}
		p, err := ParsePolicy(c.Allow, c.Genesis)
		if err == nil && c.PerDay != "" {
			err = p.PerDay(c.PerDay)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
		out[c.Name] = &Caller{c.Name, c.Keys, p}
	}
	return out, nil
}

// Bounded says whether every client has a policy that lists what is signed.
func (c Clients) Bounded() bool {
	for _, x := range c {
		if x.only.open() {
			return false
		}
	}
	return true
}

// has reports whether the agent signs with a key for a caller.
func (c *Caller) has(key string) bool {
	return c == nil || len(c.keys) == 0 || slices.Contains(c.keys, key)
}
