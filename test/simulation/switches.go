package simulation

// Now is what the relay is held to.
var Now = Switches{
	Pairs: false, ExactlyOnce: true,
	Without: map[Kind]bool{Deny: true, Restore: true, Fence: true, Limit: true},
}
