package serve

import (
	"encoding/json"
	"testing"

	"github.com/agon-arena/agon/ledger/remote"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"call":"set_weights","netuid":1,"hotkey":"x","weights":{"uids":[1],"values":[2],"version_key":3}}`))
	f.Add([]byte(`{"call":"commit_weights","hash":"` + "0000000000000000000000000000000000000000000000000000000000000000" + `"}`))
	f.Add([]byte(`{"call":"set_commitment","fields":[{"type":"raw","data":"eA=="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		x, err := parse(b)
		if err != nil {
			return
		}
		if x.Call == remote.CallSetWeights && x.Weights == nil || x.Call == remote.CallCommitWeights && x.Hash == nil {
			t.Errorf("%s lacks what it needs", b)
		}
		again, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parse(again); err != nil {
			t.Errorf("%s becomes %s: %v", b, again, err)
		}
	})
}
