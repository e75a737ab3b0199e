package miner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon/auth"
	"github.com/agon-arena/agon/internal/lazyregexp"
)

// Wallet is where the stock client takes a hotkey from, in this order: a
// phrase, a wallet file, a wallet in the Bittensor layout.
type Wallet struct {
	Mnemonic string
	File     string
	Path     string // default ~/.bittensor/wallets
	Name     string
	Hotkey   string
}

// maxWalletFile bounds a wallet file, in bytes.
const maxWalletFile = 256 << 10

// Load reads the hotkey.
func (w Wallet) Load() (*auth.Key, error) {
	switch {
	case w.Mnemonic != "":
		return auth.KeyFromMnemonic(auth.Sr25519, normal(w.Mnemonic), "")
	case w.File != "":
		st, err := os.Stat(w.File)
		if err != nil {
			return nil, fmt.Errorf("read wallet file: %w", err)
		}
		if st.Size() > maxWalletFile {
			return nil, fmt.Errorf("wallet file %s: larger than %d bytes", w.File, maxWalletFile)
		}
		b, err := os.ReadFile(w.File)
		if err != nil {
			return nil, fmt.Errorf("read wallet file: %w", err)
		}
		phrase, err := FindPhrase(string(b))
		if err != nil {
			return nil, fmt.Errorf("wallet file %s: %w", w.File, err)
		}
		return auth.KeyFromMnemonic(auth.Sr25519, phrase, "")
	}
	aw := auth.Wallet{Path: w.Path, Name: w.Name, Hotkey: w.Hotkey}
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(aw.Path, "~/") {
		aw.Path = filepath.Join(home, aw.Path[2:])
	}
	if err := aw.Validate(); err != nil {
		return nil, err
	}
	return aw.LoadHotkey()
}

func normal(s string) string { return strings.Join(strings.Fields(s), " ") }

var (
	hotkeyLabel = lazyregexp.New(`(?i)hotkey\s*[_ -]?\s*(mnemonic|seed|phrase)`)
	anyLabel    = lazyregexp.New(`(?i)(mnemonic|secretphrase|seed phrase)`)
	phraseForm  = lazyregexp.New(`[a-z]+(?:\s+[a-z]+){11,23}`)
)

// FindPhrase finds the one valid BIP-39 phrase of a wallet file, which may be
// free text or JSON. Those labelled as the hotkey's are preferred to those with
// another label; several of equal rank are an error.
func FindPhrase(text string) (string, error) {
	type found struct {
		rank   int
		phrase string
	}
	var all []found
	add := func(label, candidate string) {
		rank := 2
		switch {
		case hotkeyLabel().MatchString(label):
			rank = 0
		case anyLabel().MatchString(label):
			rank = 1
		}
		for _, run := range phraseForm().FindAllString(strings.ToLower(candidate), -1) {
			words := strings.Fields(run)
			for _, n := range []int{24, 21, 18, 15, 12} {
				if p := valid(words, n); p != "" {
					if !slices.ContainsFunc(all, func(f found) bool { return f.phrase == p && f.rank <= rank }) {
						all = append(all, found{rank, p})
					}
					break
				}
			}
		}
	}
	var doc any
	if json.Unmarshal([]byte(text), &doc) == nil {
		walk("", doc, add)
	} else {
		label := ""
		for line := range strings.Lines(text) {
			if before, after, ok := strings.Cut(line, ":"); ok {
				label = before
				add(label, after)
				if strings.TrimSpace(after) != "" {
					label = ""
				}
				continue
			}
			add(label, line)
		}
	}
	for rank := range 3 {
		var of []string
		for _, f := range all {
			if f.rank == rank && !slices.Contains(of, f.phrase) {
				of = append(of, f.phrase)
			}
		}
		if len(of) == 1 {
			return of[0], nil
		}
		if len(of) > 1 {
			return "", errors.New("it holds several phrases: label the hotkey's \"hotkey mnemonic\"")
		}
	}
	return "", errors.New("it holds no valid phrase")
}

// valid returns the first run of n words that is a phrase.
func valid(words []string, n int) string {
	for i := 0; i+n <= len(words); i++ {
		p := strings.Join(words[i:i+n], " ")
		if _, err := auth.KeyFromMnemonic(auth.Sr25519, p, ""); err == nil {
			return p
		}
	}
	return ""
}

func walk(label string, v any, add func(label, candidate string)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			walk(label+" "+k, x, add)
		}
	case []any:
		for _, x := range v {
			walk(label, x, add)
		}
	case string:
		add(label, v)
	}
}
