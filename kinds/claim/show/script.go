package show

import (
	"encoding/json"
	"fmt"
)

// fact is a sentence of a document and a claim about it. Where hard is set, a reader that
// compares numbers and sentences gets it wrong.
type fact struct {
	text, claim string
	true, hard  bool
}

// page is a document that comes with agon, by its title, and what there is to claim of it.
type page struct {
	title string
	facts [4]fact
}

var pages = []page{
	{"Closure of the Orm bridge", [4]fact{
		{text: "The railway bridge over the Orm closes on 2 December for eleven weeks.", claim: "From 2 December no train crosses the railway bridge over the Orm.", true: true},
		{text: "Freight goes by way of Sund, which adds 63 kilometres to the route.", claim: "By way of Sund the route of freight is 36 kilometres longer."},
		{text: "The repair costs 5.2 million crowns and is paid by the national railway, not by the town.", claim: "The town has to find the money for the repair of its railway bridge."},
		{text: "Trains between Vell and Hadden are replaced by buses that leave every forty minutes.", claim: "A bus takes passengers from Vell to Hadden.", true: true, hard: true},
	}},
	{"Harbour report of Vell", [4]fact{
		{text: "The port authority of Vell handled 412 ships this year, 37 more than last year.", claim: "This year the port authority of Vell saw 412 ships.", true: true},
		{text: "The outer basin was dredged to a depth of 14 metres in spring, so that ore carriers can enter at any tide.", claim: "Dredging in spring left the outer basin 12 metres deep."},
		{text: "Two of the four cranes are older than thirty years; their replacement was put off until the loan for the breakwater is repaid in 2029.", claim: "The port bought new cranes before it paid for the breakwater."},
		{text: "Nobody was seriously injured on the quays, for the third year in a row.", claim: "The quays had no grave accident.", true: true, hard: true},
	}},
	{"Minutes of the library board", [4]fact{
		{text: "The chair reported that loans of printed books rose by 8 percent while loans of films fell by half.", claim: "Loans of printed books grew by 8 percent.", true: true},
		{text: "The board accepted the gift of the Falk map collection, 214 sheets, on condition that it is scanned within two years.", claim: "The Falk map collection holds 241 sheets."},
		{text: "A request to open on Sundays was not voted on; it returns in March with figures for staff.", claim: "The library board agreed to Sunday hours."},
		{text: "It decided by five votes to two to end fines for late books from January.", claim: "After New Year a late book costs its reader no fine.", true: true, hard: true},
	}},
	{"A find below the customs house", [4]fact{
		{text: "Workers who renewed a drain below the customs house found a clay pot with 63 silver coins.", claim: "A clay pot with 63 silver coins lay below the customs house.", true: true},
		{text: "The town museum dates the youngest coin to 1523 and believes that the pot was hidden during the siege of that year.", claim: "The youngest coin of the pot is dated to 1532."},
		{text: "They will be cleaned first and shown from May.", claim: "Visitors see the silver before anybody cleans it."},
		{text: "Under the law on finds half of the value belongs to the owner of the ground, which is the port authority.", claim: "The port authority gains by the law on finds.", true: true, hard: true},
	}},
	{"Bulletin of the Vell power company", [4]fact{
		{text: "The wind farm at Skarn delivered 61 gigawatt hours in October, its best month since it opened in 2019.", claim: "In October the wind farm at Skarn delivered 61 gigawatt hours.", true: true},
		{text: "Households paid 1.34 crowns for a kilowatt hour on average.", claim: "On average a kilowatt hour cost households 1.43 crowns."},
		{text: "A storm on 9 October stopped nine of its twenty-six turbines for two days; none was damaged.", claim: "Turbines at Skarn were damaged by a storm."},
		{text: "The coal plant in the old harbour is kept as a reserve and ran for thirty-one hours.", claim: "Vell still keeps a coal plant in reserve.", true: true, hard: true},
	}},
	{"Survey of pupils in Vell", [4]fact{
		{text: "The school office asked 1,150 pupils between ten and fifteen years; 902 answered.", claim: "The school office had answers of 902 pupils.", true: true},
		{text: "The school office asked 1,150 pupils between ten and fifteen years; 902 answered.", claim: "Questions went to 1,510 pupils between ten and fifteen."},
		{text: "Reading for pleasure rose slightly among girls and did not change among boys.", claim: "More boys than before take up a book for pleasure."},
		{text: "Two thirds walk or cycle to school.", claim: "Most children get to school on foot or by bicycle.", true: true, hard: true},
	}},
}

// Script answers the models that make the rounds: one writes four claims of a page, one gives
// the reference answers, one audits them. The reference of each page's last claim is weak at
// first; the auditor objects, and it is mended.
func Script() []byte {
	type rule struct {
		Task    string `json:"task"`
		TaskRE  string `json:"task_re,omitempty"`
		Content string `json:"content"`
	}
	var rules []rule
	say := func(task, in string, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // texts only
		}
		rules = append(rules, rule{task, in, string(b)})
	}
	const weak = "It says so."
	for _, p := range pages {
		claims := make([]map[string]any, 0, len(p.facts))
		for i, f := range p.facts {
			claims = append(claims, map[string]any{"factoid": f.text, "claim": f.claim, "true": f.true})
			verdict := -1
			if f.true {
				verdict = 1
			}
			answer := map[string]any{"verdict": verdict, "justification": says + f.text, "quotes": []string{f.text}, "ambiguous": false}
			in := fmt.Sprintf(`"claim":"%s"`, f.claim)
			say("and an auditor objected", in, answer)
			if i == len(p.facts)-1 {
				answer["justification"] = weak
			}
			say("You give the reference answer", in, answer)
		}
		say("You write claims", fmt.Sprintf(`"title":"%s"`, p.title), map[string]any{"claims": claims})
	}
	say("You audit the reference", `"justification":"`+weak[:len(weak)-1]+`\."`, map[string]any{"sound": false, "fault": "It names no fact."})
	say("You audit the reference", "", map[string]any{"sound": true, "fault": ""})
	b, err := json.Marshal(map[string]any{"version": 1, "for": "a fact-checking competition", "rule": rules})
	if err != nil {
		panic(err) // texts only
	}
	return b
}
