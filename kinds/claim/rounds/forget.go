package rounds

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
	"github.com/agon-arena/agon/engine/tools/index"
	"github.com/agon-arena/agon/internal/folder"
	"github.com/agon-arena/agon/kinds/claim/supply"
)

// forgottenName is the document, in the folder of an arena's rounds, with the addresses
// whose texts were deleted: no later round takes them in again, and nobody finds them.
const forgottenName = "forgotten"

// Limits of that document.
const (
	maxForgotten = 100_000
	maxAddress   = 2048
)

// forgotten are addresses, sorted.
type forgotten struct {
	Addresses []string `json:"addresses"`
}

// Forgot is what Forget did.
type Forgot struct {
	Arena string `json:"arena"`
	// Texts is how many stored texts were deleted, of all rounds.
	Texts int `json:"texts"`
	// Unknown are the addresses that no round has a text of. They are left out of
	// later rounds nevertheless.
	Unknown []string `json:"unknown"`
}

// Folder is where the rounds of an arena are kept in a data directory.
func Folder(data, arena string) string { return filepath.Join(data, "rounds", arena) }

// Forget deletes the texts of items of feeds, by their addresses, from what the rounds of
// an arena were made of. The list of addresses is durable before any text is deleted, so
// that one that was stopped is finished by doing it again. A server that runs on the same
// data directory finds the texts no longer from its next search on. Claims that were made
// of them stay, with the sentences that their references quote.
func Forget(data, arena string, addresses []string) (*Forgot, error) {
	root := Folder(data, arena)
	if _, err := os.Stat(root); !folder.NameForm().MatchString(arena) || err != nil {
		return nil, &agon.Error{Code: "not_found", Status: http.StatusNotFound, Field: "arena", Message: fmt.Sprintf("no rounds of an arena %.80q in %s", arena, data), Mend: "name the arena, and by --data the data directory of its server"}
	}
	var list forgotten
	if _, err := folder.Folder(root).Get(forgottenName, &list); err != nil {
		return nil, err
	}
	for i, a := range addresses {
		if a = strings.TrimSpace(a); a == "" || len(a) > maxAddress {
			return nil, &agon.Error{Code: "bad_address", Status: http.StatusUnprocessableEntity, Field: "address", Limit: fmt.Sprintf("%d bytes", maxAddress), Message: fmt.Sprintf("address %d has %d bytes, want 1 to %d", i+1, len(a), maxAddress)}
		}
		list.Addresses = append(list.Addresses, a)
	}
	slices.Sort(list.Addresses)
	if list.Addresses = slices.Compact(list.Addresses); len(list.Addresses) > maxForgotten {
		return nil, &agon.Error{Code: "too_many", Status: http.StatusUnprocessableEntity, Field: "address", Limit: fmt.Sprint(maxForgotten), Message: fmt.Sprintf("%d addresses would be forgotten, at most %d may be", len(list.Addresses), maxForgotten)}
	}
	if err := folder.Folder(root).Put(forgottenName, list); err != nil {
		return nil, err
	}
	return list.delete(arena, root, addresses)
}

// delete deletes what the rounds below root hold of the addresses.
func (l forgotten) delete(arena, root string, asked []string) (*Forgot, error) {
	out := &Forgot{Arena: arena, Unknown: []string{}}
	found := map[string]bool{}
	dirs, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("read rounds: %w", err)
	}
	for _, d := range dirs {
		if !d.IsDir() {
			continue
		}
		at := folder.Folder(filepath.Join(root, d.Name()))
		var items []supply.Item
		ok, err := at.Get("items", &items)
		if err != nil {
			return nil, err
		}
		kept := l.without(slices.Clone(items))
		if !ok || len(kept) == len(items) {
			continue
		}
		for _, i := range items {
			found[i.URL] = true
		}
		if err := at.Put("items", kept); err != nil {
			return nil, err
		}
		// A round that is being made belongs to its texts: it is begun anew.
		if ok, err := at.Get("used", &used{}); err != nil {
			return nil, err
		} else if !ok {
			if err := os.Remove(filepath.Join(root, d.Name(), "log")); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, fmt.Errorf("begin a round anew: %w", err)
			}
		}
		out.Texts += len(items) - len(kept)
	}
	for _, a := range asked {
		if a = strings.TrimSpace(a); !found[a] {
			out.Unknown = append(out.Unknown, a)
		}
	}
	return out, nil
}

// without are the items whose texts are not forgotten.
func (l forgotten) without(items []supply.Item) []supply.Item {
	return slices.DeleteFunc(items, func(i supply.Item) bool { return l.has(i.URL) })
}

func (l forgotten) has(address string) bool {
	_, ok := slices.BinarySearch(l.Addresses, address)
	return ok
}

// readForgotten reads the list of an arena's folder; empty where there is none.
func readForgotten(root string) (l forgotten, err error) {
	_, err = folder.Folder(root).Get(forgottenName, &l)
	return l, err
}

// Without leaves out of c what was forgotten in the folder of an arena's rounds, now
// and from then on: each search looks whether more was.
func (c *Corpus) Without(root string) error {
	c.mu.Lock()
	c.root = root
	c.mu.Unlock()
	return c.look()
}

// look drops the documents that were forgotten since it last looked.
func (c *Corpus) look() error {
	c.mu.RLock()
	root, seen := c.root, c.seen
	c.mu.RUnlock()
	if root == "" {
		return nil
	}
	st, err := os.Stat(filepath.Join(root, forgottenName+".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what is forgotten: %w", err)
	}
	if st.ModTime().Equal(seen) {
		return nil
	}
	l, err := readForgotten(root)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.gone = st.ModTime(), l
	c.docs = slices.DeleteFunc(c.docs, func(d index.Doc) bool { return l.has(d.URL) })
	c.index()
	return nil
}
