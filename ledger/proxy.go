package ledger

import "slices"

// Proxy lets Delegate make calls of a kind for another account.
type Proxy struct {
	Delegate string `json:"delegate"`
	Kind     string `json:"kind"` // one of ProxyKinds
	// Delay is for how many blocks a call has to be announced before it is made; 0 = none.
	Delay uint32 `json:"delay,omitempty"`
}

// Announcement says that a delegate is going to make a call for another account.
type Announcement struct {
	Real  string `json:"real"`
	Hash  Hash   `json:"hash"`  // of the call
	Block uint64 `json:"block"` // in which it was announced
}

// ProxyList is an account's proxies. The deposit is taken from its balance while they are there.
type ProxyList struct {
	List    []Proxy `json:"list"`
	Deposit uint64  `json:"deposit"` // rao
}

// AnnouncementList is what a delegate has announced, with the deposit for it.
type AnnouncementList struct {
	List    []Announcement `json:"list"`
	Deposit uint64         `json:"deposit"` // rao
}

// Delegations are the proxies of accounts, and the announcements of delegates.
type Delegations struct {
	Proxies   map[string]ProxyList
	Announced map[string]AnnouncementList
}

// Kinds of orders about proxies.
const (
	ProxyAdd      = "add"
	ProxyRemove   = "remove"
	ProxyClear    = "clear" // all of them
	ProxyAnnounce = "announce"
	// ProxyPure gives the proxy to Pure, an account without a key; the account that asks pays the deposit.
	// ProxyKill removes all proxies of Pure, for which no call can be made afterwards, and returns the deposit.
	ProxyPure = "pure"
	ProxyKill = "kill"
	// ProxyWithdraw takes announcements back that are as old as Age.
	ProxyWithdraw = "withdraw"
)

// ProxyOrder changes an account's proxies, or a delegate's announcements.
type ProxyOrder struct {
	Kind         string        `json:"kind"`
	Account      string        `json:"account"`
	Proxy        *Proxy        `json:"proxy,omitempty"`
	Announcement *Announcement `json:"announcement,omitempty"` // its block is the ledger's
	Pure         string        `json:"pure,omitempty"`         // an account without a key
	Age          uint64        `json:"age,omitempty"`          // blocks
}

// ProxyKinds are the chain's kinds of proxies in their order. Those that are not in proxyGroups allow nothing.
var ProxyKinds = []string{
	"Any", "Owner", "NonCritical", "NonTransfer", "Senate", "NonFungible", "Triumvirate", "Governance", "Staking", "Registration", "Transfer", "SmallTransfer", "RootWeights", "ChildKeys",
	"SudoUncheckedSetCode", "SwapHotkey", "SubnetLeaseBeneficiary", "RootClaim",
}

// smallTransfer is what a SmallTransfer proxy sends less than, in rao.
const smallTransfer = 500_000_000

// callGroups are the calls that the chain's proxies tell apart; what is in none is
// in "common", calls of AdminUtils that are not here in "config".
var callGroups = map[string][]string{
	"transfer":       {"Balances.transfer_keep_alive", "Balances.transfer_allow_death", "Balances.transfer_all"},
	"stake transfer": {"SubtensorModule.transfer_stake"},
	"stake": {
		"SubtensorModule.add_stake", "SubtensorModule.add_stake_limit", "SubtensorModule.remove_stake", "SubtensorModule.remove_stake_limit", "SubtensorModule.remove_stake_full_limit",
		"SubtensorModule.unstake_all", "SubtensorModule.unstake_all_alpha", "SubtensorModule.move_stake", "SubtensorModule.swap_stake", "SubtensorModule.swap_stake_limit",
	},
	"register":      {"SubtensorModule.register", "SubtensorModule.register_limit"},
	"burn register": {"SubtensorModule.burned_register"},
	"children":      {"SubtensorModule.set_children", "SubtensorModule.set_childkey_take"},
	"root claim":    {"SubtensorModule.claim_root"},
	"claim kind":    {"SubtensorModule.set_root_claim_type"},
	"owner": {
		"AdminUtils.sudo_set_weights_version_key", "AdminUtils.sudo_set_immunity_period", "AdminUtils.sudo_set_min_allowed_weights", "AdminUtils.sudo_set_max_allowed_uids", "AdminUtils.sudo_set_min_burn",
		"AdminUtils.sudo_set_max_burn", "AdminUtils.sudo_set_bonds_moving_average", "AdminUtils.sudo_set_bonds_penalty", "AdminUtils.sudo_set_commit_reveal_weights_enabled",
		"AdminUtils.sudo_set_liquid_alpha_enabled", "AdminUtils.sudo_set_alpha_values", "AdminUtils.sudo_set_commit_reveal_weights_interval", "AdminUtils.sudo_set_alpha_sigmoid_steepness",
		"AdminUtils.sudo_set_yuma3_enabled", "AdminUtils.sudo_set_burn_half_life", "AdminUtils.sudo_set_mechanism_count", "AdminUtils.sudo_set_mechanism_emission_split", "AdminUtils.sudo_set_recycle_or_burn",
	},
}

// proxyGroups are the groups that a kind of proxy may call.
var proxyGroups = map[string][]string{
	"Owner":                  {"owner"},
	"SubnetLeaseBeneficiary": {"owner"},
	"NonCritical":            {"common", "owner", "config", "transfer", "stake", "stake transfer", "register", "children", "root claim", "claim kind"},
	"NonTransfer":            {"common", "owner", "config", "stake", "register", "burn register", "children", "root claim", "claim kind"},
	"NonFungible":            {"common", "owner", "config", "register", "children", "root claim", "claim kind"},
	"Staking":                {"stake", "claim kind"},
	"Registration":           {"register", "burn register"},
	"Transfer":               {"transfer", "stake transfer"},
	"SmallTransfer":          {"transfer", "stake transfer"},
	"ChildKeys":              {"children"},
	"RootClaim":              {"root claim"},
}

// ProxyAllows reports whether a proxy of a kind may make a call. amount is what the
// call sends, of TAO or alpha; nil: it does not say.
func ProxyAllows(kind, pallet, call string, amount *uint64) bool {
	if kind == "Any" {
		return true
	}
	group := "common"
	if pallet == "AdminUtils" {
		group = "config"
	}
	for name, calls := range callGroups {
		if slices.Contains(calls, pallet+"."+call) {
			group = name
		}
	}
	if kind == "SmallTransfer" && (amount == nil || *amount >= smallTransfer) {
		return false
	}
	return slices.Contains(proxyGroups[kind], group)
}

// ProxyCovers reports whether a proxy of a kind may add and remove proxies of another.
func ProxyCovers(kind, other string) bool {
	switch {
	case kind == other, kind == "Any":
		return true
	case other == "Any":
		return false
	case kind == "NonTransfer":
		return other != "Transfer" && other != "SmallTransfer"
	}
	return kind == "Transfer" && other == "SmallTransfer"
}
