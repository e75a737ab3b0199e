package subtensor

import "context"

// HashAt is the node's hash of a block, for tests that script one.
func HashAt(ctx context.Context, c *Client, number uint64) string {
	hash, err := c.hashAt(ctx, number)
	if err != nil {
		panic(err)
	}
	return hash
}
