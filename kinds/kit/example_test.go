package kit_test

import (
	"fmt"

	"github.com/agon-arena/agon/engine/kind"
	"github.com/agon-arena/agon/kinds/kit"
)

// golf stands for a kind; `agon kind new` writes a whole one.
type golf struct{ kind.Kind }

// A kind is one value; the list of them is what a binary plays. Arena files are
// read against that list.
func ExampleList() {
	list := kit.List{{
		Kind:      "golf",
		New:       func(kit.Parts) kind.Kind { return golf{} },
		EntryName: "agent.py",
	}}
	fmt.Println(list.Check(), list.Names())

	f, err := kit.ParseArenaFile([]byte("id = \"open\"\nkind = \"golf\"\ntitle = \"The open\"\nnetuid = 3\nsets = [\"./holes\"]\n"), list)
	fmt.Println(f.ID, f.Incentive, f.Licence, err)
	_, err = kit.ParseArenaFile([]byte("id = \"open\"\nkind = \"chess\"\ntitle = \"The open\"\nnetuid = 3\nsets = [\"./boards\"]\n"), list)
	fmt.Println(err)

	k, _ := list.Of("golf")
	fmt.Println(k.Entry("/home/me/putter.py"))
	// Output:
	// <nil> [golf]
	// open paired MIT <nil>
	// arena file: 2:1  kind: "chess" is not one of golf
	// agent.py
}
