// What only the tests of this package need.

package play

// AgentFailed reports whether outcome says that the agent failed, so that the
// run's fault is the agent's unless evidence from outside the box moves it.
func AgentFailed(outcome string) bool {
	return outcome != OutcomeOK && outcome != OutcomeEmpty
}
