package commands

import (
	"net/http"
	"strings"

	"github.com/agon-arena/agon/kinds/research/miner"
)

const unregistered = "is not registered on subnet "

// mendOf says what to do about a refusal of the coordinator, where that is known.
func mendOf(e *miner.APIError) string {
	switch text := e.Text(); {
	case strings.Contains(text, "description"):
		return `say what you try: --description "smaller alphabet"`
	case strings.Contains(text, unregistered):
		_, net, _ := strings.Cut(text, unregistered)
		return "register the hotkey first: agon ledger register --netuid " + strings.TrimRight(net, ".)} \n\"")
	case strings.HasPrefix(text, "claim ") && e.Status == http.StatusConflict:
		return "claim the task anew: agon research start TASK"
	case e.Status == http.StatusNotFound:
		return "list the live tasks: agon research tasks"
	}
	return ""
}
