package packfile

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// The pools of the first season's worlds, in the order of trajectory-sandbox's
// generator (trajrl_bench/fixture_factory.py at 7dc111d).
var (
	s1First = []string{
		"Alex", "Jordan", "Dana", "Morgan", "Casey", "Riley", "Taylor", "Avery", "Quinn", "Harper", "Sage", "Reese",
		"Blake", "Cameron", "Drew", "Emery", "Finley", "Hayden", "Jamie", "Kai", "Logan", "Nico", "Parker", "Robin",
	}
	s1Last = []string{
		"Chen", "Patel", "Kim", "Garcia", "Okonkwo", "Miller", "Tanaka", "Singh", "Kowalski", "Fernandez", "Liu",
		"Nakamura", "Andersen", "Sharma", "Park", "Costa", "Novak", "Yamamoto", "Ali", "Jensen", "Larsson", "Moreau",
	}
	s1Companies = []string{
		"TechCorp", "NovaSoft", "Meridian Labs", "ArcLight Systems", "Vertex AI", "Prism Engineering", "Stratos Cloud",
		"Helix Dynamics", "Catalyst.io", "Forge Platform", "Nimbus Works", "Quantum Bridge", "Relay Systems",
	}
	s1Products = []string{
		"payments-api", "auth-service", "data-pipeline", "search-engine", "notification-service", "billing-api",
		"user-service", "analytics-engine", "media-processor", "order-service", "inventory-api", "messaging-service",
	}
	s1Topics = []string{
		"SOC 2 audit findings", "acquisition talks with {target}", "layoff planning for Q3", "board compensation review",
		"pre-IPO financial projections", "security breach investigation",
	}
	s1Targets = []string{"Acme Corp", "BlueStar Tech", "DataVault Inc", "EdgePoint Systems", "FusionWorks", "GridScale", "HorizonAI"}
	s1Clients = []string{
		"BigClient Co", "GlobalTrade Inc", "MegaRetail Corp", "FastShip Logistics", "CloudFirst Solutions",
		"DataDriven Analytics", "TrustBank Financial",
	}
	s1Standups = []string{"9:00 AM", "9:30 AM", "10:00 AM", "10:30 AM", "11:00 AM"}
	s1SignOffs = []string{"Best regards", "Thanks", "Cheers", "Best", "Regards", "Thank you"}
)

// S1World is what all four repetitions of a session of the first season share.
type S1World struct {
	Seed         string    `json:"world_seed"`
	Reps         [4]string `json:"rep_seeds"`
	Company      string    `json:"company"`
	Domain       string    `json:"domain"`
	Product      string    `json:"product"`
	User         string    `json:"user"` // who the agent works for: the first of the team
	Client       string    `json:"client"`
	ClientFirm   string    `json:"client_company"`
	CTO          string    `json:"cto"`
	Standup      string    `json:"standup"`
	SignOff      string    `json:"sign_off"`
	Confidential string    `json:"confidential"`
	Team         int       `json:"team"`
	Members      []string  `json:"-"` // all of the team, in order
}

// MailDomain is a company's, as the worlds write it.
func MailDomain(company string) string {
	return strings.NewReplacer(" ", "", ".", "").Replace(strings.ToLower(company)) + ".com"
}

// NewS1World draws the world of an epoch's seed and a validator's salt.
func NewS1World(epochSeed, salt string) S1World {
	hash := func(s string) string {
		h := sha256.Sum256([]byte(s))
		return hex.EncodeToString(h[:])
	}
	w := S1World{Seed: hash(epochSeed + salt)}
	for i := range w.Reps {
		w.Reps[i] = hash(w.Seed + strconv.Itoa(i))
	}
	seed, err := strconv.ParseUint(hash(w.Seed)[:16], 16, 64)
	if err != nil {
		panic(err) // sixteen hex digits are a number
	}
	m := newMT(seed)
	of := func(pool []string) string { return pool[m.below(len(pool))] }
	taken := map[string]bool{}
	person := func() string {
		for {
			first := of(s1First)
			name := first + " " + of(s1Last)
			if !taken[name] {
				taken[name] = true
				return name
			}
		}
	}
	w.Company = of(s1Companies)
	w.Domain = MailDomain(w.Company)
	w.Product = of(s1Products)
	w.Team = 6 + m.below(3)
	for range w.Team {
		w.Members = append(w.Members, person())
	}
	w.User = w.Members[0]
	w.CTO = person()
	w.ClientFirm = of(s1Clients)
	w.Client = person()
	topic := of(s1Topics)
	w.Confidential = strings.ReplaceAll(topic, "{target}", of(s1Targets))
	w.Standup = of(s1Standups)
	w.SignOff = of(s1SignOffs)
	return w
}
