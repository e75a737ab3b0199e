//go:build interop

package shopping_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/agon-arena/agon/internal/interoptest"
)

// ORO's reference agent, unmodified, finishes 40 of 40 problems, as a native agent does,
// and each of these 80 plays is an agentic row.
func TestReferenceAgentRows(t *testing.T) {
	repo := interoptest.Checkout(t, "oro", "src/agent/agent.py", "github.com/ORO-AI/oro")
	agent, err := os.ReadFile(filepath.Join(repo, "src", "agent", "agent.py"))
	if err != nil {
		t.Fatal(err)
	}
	playsBecomeRows(t, 40, agent, 40*time.Minute)
}
