// What only the tests of this package need.

package subtensor

import (
	"fmt"

	"github.com/agon-arena/agon/ledger"
)

// StorageIndex is what a mechanism's weights are kept and hashed under: netuid
// itself for mechanism 0.
func StorageIndex(netuid uint16, mechanism uint8) (uint16, error) {
	if netuid >= mechanismStep || mechanism > maxMechanism {
		return 0, &ledger.Error{Name: "MechanismDoesNotExist", Message: fmt.Sprintf("mechanism %d of subnet %d: at most %d of subnets below %d", mechanism, netuid, maxMechanism, mechanismStep)}
	}
	return uint16(mechanism)*mechanismStep + netuid, nil
}
