package commands

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/agon-arena/agon/kinds/research/coordinator"
	"github.com/agon-arena/agon/kinds/research/miner"
)

// TestAgainstTheBest: the base is played against where nobody holds the best, not where
// the server fails: the chance to be seated would be false.
func TestAgainstTheBest(t *testing.T) {
	for status, base := range map[int]bool{404: true, 500: false, 503: false, 403: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		who, _, err := incumbent(t.Context(), &miner.Client{URL: s.URL}, &coordinator.TaskView{ID: "t"}, "best")
		s.Close()
		if base != (err == nil) || base != (who == "the base") {
			t.Errorf("%d: %q, %v", status, who, err)
		}
		var api *miner.APIError
		if !base && (!errors.As(err, &api) || api.Status != status) {
			t.Errorf("%d: %v does not say it", status, err)
		}
	}
}
