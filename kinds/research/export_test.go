package research

// For tests that play whole arenas.
var (
	AdminToken   = adminToken
	ReplayConfig = replayConfig
)
