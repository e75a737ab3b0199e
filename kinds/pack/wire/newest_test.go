package wire

import (
	"reflect"
	"testing"
)

// What the newest observers read besides, from one filled arena.
func TestNewestReads(t *testing.T) {
	w, hashes := filled(t)
	v, a, b, f := w.ss58('v'), w.ss58('a'), w.ss58('b'), w.ss58('f')

	board := w.get("/api/v2/leaderboard", 200)
	win, _ := board["winner"].(map[string]any)
	if win["hotkey"] != b || win["since_epoch_id"] != 2.0 || win["score"] != 1.0 {
		t.Errorf("winner %v", win)
	}
	if ip, _ := board["in_progress_epoch"].(map[string]any); ip["id"] != 6.0 || ip["challenger_hotkey"] != f {
		t.Errorf("in progress %v", board["in_progress_epoch"])
	}
	miners := rows(t, board, "miners")
	if len(miners) != 6 || miners[0]["hotkey"] != b || miners[0]["is_winner"] != true || miners[1]["hotkey"] != a || miners[1]["last_qualified"] != true {
		t.Errorf("leaderboard %v", miners)
	}
	for _, m := range miners {
		switch {
		case m["hotkey"] == f && (m["queue_position"] != 1.0 || m["last_epoch_id"] != nil),
			m["hotkey"] != f && (m["queue_position"] != nil || m["last_epoch_id"] == nil):
			t.Errorf("row %v", m)
		}
	}

	events := rows(t, w.get("/api/v2/scores/recent", 200), "events")
	for i := 1; i < len(events); i++ {
		if events[i]["createdAt"].(string) > events[i-1]["createdAt"].(string) {
			t.Error("events are not the newest first")
		}
	}
	since := events[2]["createdAt"].(string)
	if got := rows(t, w.get("/api/v2/scores/recent?since="+since, 200), "events"); len(got) != 3 || !reflect.DeepEqual(got, events[:3]) {
		t.Errorf("since %s: %d of %d", since, len(got), len(events))
	}
	if got := rows(t, w.get("/api/v2/scores/recent?limit=1", 200), "events"); len(got) != 1 || got[0]["packHash"] != hashes['e'] || got[0]["epochNumber"] != 5.0 {
		t.Errorf("the last: %v", got)
	}
	w.get("/api/v2/scores/recent?since=yesterday", 400)

	for _, row := range rows(t, w.get("/api/v2/validators/progress", 200), "validators") {
		if row["evaluatedInCycle"] != 3.0 || row["totalActiveMiners"] != 6.0 || row["latestMinerUid"] != 7.0 || row["cycleStartedAt"] == nil {
			t.Errorf("progress %v", row)
		}
	}
	if won := w.get("/api/winners", 200); won["takeover_count"] != 2.0 || won["current_epoch_id"] != 6.0 {
		t.Errorf("winners %v", won)
	} else if list := rows(t, won, "takeovers"); list[0]["winner_hotkey"] != b || list[0]["defeated_hotkey"] != a || list[0]["epoch_id"] != 2.0 || list[1]["defeated_hotkey"] != nil {
		t.Errorf("takeovers %v", list)
	}

	nodes := w.get("/api/nodes/status", 200)
	if nodes["totalValidators"] != 2.0 || nodes["onlineValidators"] != 2.0 || nodes["totalMiners"] != 7.0 || nodes["onlineMiners"] != 4.0 || len(rows(t, nodes, "nodes")) != 9 {
		t.Errorf("nodes %v", nodes)
	}
	for kind, n := range map[string]int{"miner": 7, "validator": 2} {
		for i, x := range rows(t, w.get("/api/nodes/status?type="+kind, 200), "nodes") {
			if x["nodeType"] != kind || i >= n {
				t.Errorf("%s %d: %v", kind, i, x)
			}
		}
	}
	w.get("/api/nodes/status?type=other", 400)
	w.get("/api/prices", 200)

	bench := rows(t, w.get("/api/bench", 200), "scenarios")
	if got := names(bench, "scenario"); !reflect.DeepEqual(got, []string{"inbox_triage", "stand_up", "morning_brief"}) {
		t.Errorf("scenarios %v", got)
	}
	// e is the cheapest where it passed; it failed stand_up, so that a dearer pack is the best of it.
	if bench[1]["best_holder_hotkey"] != b || bench[1]["best_epoch_id"] != 2.0 || bench[0]["best_holder_hotkey"] != w.ss58('e') {
		t.Errorf("bench %v", bench)
	}
	if got := rows(t, w.get("/api/bench?spec=2", 200), "scenarios"); len(got) != 0 {
		t.Errorf("another spec: %v", got)
	}
	if own := rows(t, w.get("/api/bench/miner-scores?spec=1001&hotkey="+a, 200), "scenarios"); len(own) != 3 || own[0]["score"] != 1.0 || own[0]["best_epoch_id"] != 1.0 {
		t.Errorf("a's best: %v", own)
	}
	w.get("/api/bench/miner-scores", 400)
	w.get("/api/bench?spec=x", 400)

	act := rows(t, w.get("/api/validator/"+v+"/activity", 200), "activity")
	if len(act) != 3 || act[0]["participated"] != true || act[0]["epoch_id"] != 5.0 {
		t.Errorf("activity %v", act)
	}
	if got := rows(t, w.get("/api/validator/nobody/activity?limit=2", 200), "activity"); len(got) != 2 || got[0]["participated"] != false {
		t.Errorf("nobody's activity %v", got)
	}
}
