package coordinator

import "github.com/agon-arena/agon/engine/store"

// Tables of the coordinator (migrations/0005_research.sql of the store says what a row is).
const (
	tableTasks       store.DocTable = "research_tasks"
	tableClaims      store.DocTable = "research_claims"
	tableSubmissions store.DocTable = "research_submissions"
	tableChanges     store.DocTable = "research_changes"
	tableWorkItems   store.DocTable = "research_work_items"
	tableJobs        store.DocTable = "research_jobs"
	tablePeers       store.DocTable = "research_peers"
	tableRecords     store.DocTable = "research_records"
	tableIdeas       store.DocTable = "research_ideas"
	tableCanaries    store.DocTable = "research_canaries"
	tableHits        store.DocTable = "research_hits" // of canaries by validator, of votes by "peer/HOTKEY", of tries by "publish/HOTKEY"
	tablePolicies    store.DocTable = "research_policies"
	tableEpochs      store.DocTable = "research_epochs"
	tablePackages    store.DocTable = "research_packages"
	tableRecipients  store.DocTable = "research_recipients"
	tableLanes       store.DocTable = "research_lanes" // these three: migrations/0011_lanes.sql
	tableEmissions   store.DocTable = "research_emissions"
	tablePaid        store.DocTable = "research_paid"
)
